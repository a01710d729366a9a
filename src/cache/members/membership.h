// Who is a member of a job's cache while the job runs: plain logic without clocks, sockets or
// threads, so that a simulator can drive it. The protocol is SWIM (Das, Gupta and Motivala, "SWIM:
// scalable weakly-consistent infection-style process group membership protocol", DSN 2002) with the
// corrections of Lifeguard (Dadgar, Phillips and Currey, "Lifeguard: local health awareness for
// more accurate failure detection", 2018). docs/decisions/0015-cache.md says why.
//
//   every period:  ping one member ── no ack ──► ask three others to ping it ── no ack ──► suspect
//   a suspect:     says that it is alive, with a higher incarnation, or is dead after a while
//   news:          goes with every message, and for itself while there is some
//   all members:   are compared with one other member every few seconds
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/random.h"
#include "cache/members/member_table.h"
#include "cache/members/membership_message.h"
#include "cache/members/suspicions.h"

namespace forebay::cache {

// One thread uses it. Time is any clock that does not go back while the process runs.
class Membership {
 public:
  // The time of the last actions' `next_tick_ns` has come.
  struct Tick {};
  struct Received {
    Message message;  // from a member of this job; the driver has checked that
  };
  // Members that this machine knows from elsewhere, such as the launcher, when it joins.
  struct Seeds {
    std::vector<Member> members;
  };
  // This machine leaves. After that the other events do nothing.
  struct Leave {};
  using Event = std::variant<Tick, Received, Seeds, Leave>;

  struct Send {
    std::string host;
    uint16_t port = 0;
    Message message;
  };
  struct Actions {
    std::vector<Send> sends;
    bool members_changed = false;  // members() differs from the list after the last event
    int64_t next_tick_ns = 0;      // INT64_MAX after the end
  };

  // The incarnation of `self` must be higher than those of its earlier processes.
  Membership(const Member& self, uint64_t seed);

  Actions step(int64_t now_ns, const Event& event);

  // The members that own pieces, which are those that are alive or suspected, including this
  // machine; sorted by id.
  std::vector<Member> members() const { return table_.members(); }
  // This machine, with its present incarnation.
  const Member& self() const { return self_; }
  // Another process serves the same part of the cache. This one has stopped taking part.
  bool is_replaced() const { return is_replaced_; }

 private:
  // A ping of this period.
  struct Probe {
    std::string id;
    uint32_t number = 0;
    int64_t ask_others_ns = 0;  // unless there was an ack; INT64_MAX: others were asked
    size_t helpers = 0;         // members that were asked to ping
    size_t nacks = 0;
    bool is_acked = false;
  };
  // A ping on behalf of another member.
  struct Relay {
    Send answer;  // what the other member gets when the target acks
    std::string target;
    uint32_t number = 0;  // of this machine's ping
    int64_t nack_ns = 0;  // INT64_MAX: it was sent
    int64_t end_ns = 0;
  };
  struct News {
    std::string id;
    uint32_t sent = 0;  // how many times
  };

  void advance(int64_t now_ns);
  void on(const Tick& tick);
  void on(const Received& received);
  void on(const Seeds& seeds);
  void on(const Leave& leave);
  void answer(const Message& message);
  int64_t next_deadline_ns() const;

  void end_probe();
  void start_period();
  void ping(const Member& target, uint32_t number);
  void ask_others_to_ping();
  void on_ping_request(const Message& message);
  void on_ack(const Message& message);
  void send_nacks();

  void learn(MemberUpdate update, bool is_sync);
  void learn_of_self(const MemberUpdate& update);
  void suspect(const std::string& id);
  void bury_suspects();
  void change_health(int64_t by);

  void spread(const std::string& id);
  void gossip();
  void sync();
  void on_digest(const Message& message);
  void send_sync(const Member& to, const MemberDigest& theirs);

  Message message(Message::Kind kind) const;
  MemberUpdate update_about(const MemberTable::Record& record) const;
  void send(const Member& to, Message message);
  bool is_news_to(const Member& member) const;
  void send_with_news(const Member& to, Message message);

  base::Random random_;
  Member self_;
  MemberTable table_;
  Actions actions_;  // of the present step

  // This machine's time, without the times in which it was stopped.
  int64_t time_ns_ = 0;
  int64_t skipped_ns_ = 0;
  std::optional<int64_t> tick_due_ns_;  // on the caller's clock; nothing before the first event

  int64_t health_ = 0;  // 0: this machine keeps up; higher: it waits longer for others
  int64_t period_end_ns_ = 0;
  std::optional<Probe> probe_;
  std::vector<Relay> relays_;
  Suspicions suspicions_;
  std::vector<News> news_;
  int64_t last_gossip_ns_ = 0;
  int64_t next_sync_ns_ = 0;
  size_t sync_messages_left_ = 0;  // in this period
  uint32_t number_ = 0;
  uint64_t sequence_ = 0;
  // The incarnation that answered an earlier or other process with this id; 0: no such process was
  // met.
  uint64_t answered_other_ = 0;
  bool is_replaced_ = false;
  bool has_left_ = false;
};

}  // namespace forebay::cache
