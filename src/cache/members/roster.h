// Runs the membership protocol of one machine with a socket, a clock and a thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/crew.h"
#include "base/mutex.h"
#include "base/queue.h"
#include "cache/members/membership.h"
#include "io/datagrams.h"

namespace forebay::cache {

// A machine of a list that a user gives.
struct Listed {
  Member member = {};
  std::string name = {};  // of its host, whose address is looked up; empty: it is in `member`
};

// Recognises messages that came before, or long after later ones, so that a datagram that somebody
// recorded and sends again has no effect. One thread uses it.
class Replays {
 public:
  // Whether the message is new.
  bool take(const Message& message);

 private:
  struct Seen {
    uint64_t incarnation = 0;
    uint64_t highest = 0;  // sequence number
    uint64_t before = 0;   // bit mask of the 64 numbers before `highest` that have come
    uint64_t older = 0;    // the highest number of a process that was replaced
  };
  std::map<std::string, Seen> seen_;  // by the senders' ids
};

class Roster {
 public:
  // Called in the roster's thread whenever the members or this machine's incarnation change.
  using Changed = std::function<void(const Member& self, std::vector<Member> members)>;
  // Other members reach this one at the port of `datagrams`, which is also the port of its server.
  // `listed`: machines that are contacted again and again while they are not members; their names
  // are looked up each time. Errors: kNoMemory if no thread can be started.
  static base::Result<std::unique_ptr<Roster>> open(const Member& self,
                                                    std::unique_ptr<io::Datagrams> datagrams,
                                                    std::vector<Listed> listed, Changed changed);
  // Begins to listen and to call `changed`; called once.
  void start();
  // Announces nothing: the others notice that this machine is gone, unless another process of it
  // takes over. Waits for a look-up of a name that is under way.
  ~Roster();
  Roster(const Roster&) = delete;
  Roster& operator=(const Roster&) = delete;

  // Adds members that are known from elsewhere. Any thread may call it.
  void add(std::vector<Member> members) EXCLUDES(mutex_);
  // Whether another process serves the same part of the cache, so that this one has stopped taking
  // part. Any thread may call it.
  bool is_replaced() const { return is_replaced_; }
  // Tells the others that this machine leaves. Any thread may call it.
  void leave() EXCLUDES(mutex_);

 private:
  Roster(const Member& self, std::unique_ptr<io::Datagrams> datagrams, std::vector<Listed> listed,
         Changed changed);
  void run();
  void look_up();
  void step(const Membership::Event& event);
  void look_for_listed();
  void tell(Membership::Event event) EXCLUDES(mutex_);

  const std::unique_ptr<io::Datagrams> datagrams_;
  const std::vector<Listed> listed_;
  const Changed changed_;
  Membership membership_;
  Replays replays_;
  Member told_self_;  // the last arguments of changed_
  std::vector<Member> told_members_;
  int64_t next_tick_ns_ = 0;
  int64_t next_look_ns_ = 0;  // when listed machines are contacted next
  std::atomic<bool> is_replaced_ = false;
  base::Mutex mutex_;
  std::vector<Membership::Event> events_ GUARDED_BY(mutex_);
  bool ended_ GUARDED_BY(mutex_) = false;
  // Named machines to contact. The resolver may take long, so it has a thread of its own.
  base::Queue<std::vector<Listed>> named_{1};
  base::Crew crew_;
};

}  // namespace forebay::cache
