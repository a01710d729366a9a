// What one machine knows of the members of its job, without deciding anything: states, digests, the
// order in which members are pinged. Members that are gone stay in it for a while, so that old
// messages do not bring them back.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "cache/members/membership_message.h"

namespace forebay::cache {

// One thread uses it.
class MemberTable {
 public:
  struct Record {
    Member member = {};
    MemberState state = MemberState::kAlive;
    int64_t gone_since_ns = 0;  // while it is gone
  };

  // `self` is in the table from the beginning; `random` is used until the end.
  MemberTable(const Member& self, base::Random* random);
  MemberTable(const MemberTable&) = delete;
  MemberTable& operator=(const MemberTable&) = delete;

  const Record* find(const std::string& id) const;
  // Adds the member or replaces what is known of it. False: the table is full of members that are
  // not gone. Gives up the one that is gone for longest where it needs its place.
  bool put(const Member& member, MemberState state, int64_t now_ns);
  // Forgets members that were gone before this time.
  void forget_gone_before(int64_t time_ns);

  // Members that are not gone, with this machine itself: how many, and sorted by their ids.
  size_t size() const { return others_.size() + 1; }
  std::vector<Member> members() const;
  // Whether members() or a member's address or room changed since the last call.
  bool take_changed();

  // Returns another member that is not gone; each comes once in a round. Null: there is none.
  const Record* next_to_ping();
  // Returns up to `count` others that are not gone, drawn at random, without the member `except`.
  std::vector<const Record*> draw(size_t count, const std::string& except) const;
  // Returns one that is dead and did not say that it leaves; null: there is none.
  const Record* draw_dead() const;

  // Returns the digest of the members that are not gone, each with its incarnation.
  const MemberDigest& digest() const { return digest_; }
  // Returns all members, those that are gone too, in the buckets where the other digest differs.
  std::vector<const Record*> different_from(const MemberDigest& other) const;

 private:
  using Records = std::map<std::string, Record>;
  void toggle_in_digest(const Member& member);
  void start_pinging(const Record& record);
  void stop_pinging(const Record& record);
  bool make_room();

  const std::string self_id_;
  base::Random* const random_;
  Records records_;                    // pointers to its records stay valid until they are erased
  std::vector<const Record*> others_;  // those that are not gone, in the order of this round
  size_t next_ = 0;                    // the one of others_ that is pinged next
  MemberDigest digest_{};
  bool changed_ = true;
};

// A hash of the id, for where two members may have the same.
uint32_t short_name(const std::string& id);

}  // namespace forebay::cache
