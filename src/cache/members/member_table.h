// What one machine knows about the members of its job, without deciding anything: states, digests,
// the order in which members are pinged. Members that are gone stay in the table for a while, so
// that old messages do not bring them back.
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

  // The table begins with `self`. `random` must outlive it.
  MemberTable(const Member& self, base::Random* random);
  MemberTable(const MemberTable&) = delete;
  MemberTable& operator=(const MemberTable&) = delete;

  const Record* find(const std::string& id) const;
  // Adds the member or replaces its record. If the table is full, the member that has been gone for
  // longest is forgotten; false if no member is gone.
  bool put(const Member& member, MemberState state, int64_t now_ns);
  // Forgets members that were gone before this time.
  void forget_gone_before(int64_t time_ns);

  // Members that are not gone, including this machine: their number, and the list, sorted by id.
  size_t size() const { return others_.size() + 1; }
  std::vector<Member> members() const;
  // Whether members() or a member's address or room changed since the last call.
  bool take_changed();

  // Returns another member that is not gone; each comes once in a round. Null: there is none.
  const Record* next_to_ping();
  // Returns up to `count` others that are not gone, drawn at random, without the member `except`.
  std::vector<const Record*> draw(size_t count, const std::string& except) const;
  // Returns a member that is dead and did not announce that it leaves, drawn at random; null: there
  // is none.
  const Record* draw_dead() const;

  // Returns the digest of the members that are not gone, each with its incarnation.
  const MemberDigest& digest() const { return digest_; }
  // Returns all members, including gone ones, of the buckets in which the other digest differs.
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
  std::vector<const Record*> others_;  // members that are not gone, in the order of this round
  size_t next_ = 0;                    // index in others_ of the member that is pinged next
  MemberDigest digest_{};
  bool changed_ = true;
};

// A short hash of the id; two members may have the same one.
uint32_t short_name(const std::string& id);

}  // namespace forebay::cache
