// Chooses which waiting request is sent next, so that no read waits for another one's long queue.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "io/http/transfer.h"

namespace forebay::io::http {

// Hedges go first, then questions, each in their order. Range reads take turns: each sends a few
// requests in their order, then the next read does. A request with a later begin_ns enters the
// front of its queue at that time. One thread at a time.
class Turns {
 public:
  void push(std::unique_ptr<Transfer> transfer);
  // Takes the request that should be sent now; null if there is none. `may_send`: whether another
  // request may run. If not, only a hedge is sent, in place of the request that it repeats.
  std::unique_ptr<Transfer> pop(int64_t now_ns, bool may_send);
  // Takes out all requests for which `is_over` is true.
  std::vector<std::unique_ptr<Transfer>> take_if(
      const std::function<bool(const Transfer&)>& is_over);
  // When pop() can next return a request: 0 for at once, INT64_MAX for never.
  int64_t next_ns(bool may_send) const;
  bool empty() const;

 private:
  using Queue = std::deque<std::unique_ptr<Transfer>>;

  void wake(int64_t now_ns);
  std::unique_ptr<Transfer> pop_of_read();

  Queue hedges_;
  Queue questions_;
  std::map<const void*, Queue> reads_;  // without empty queues
  std::deque<const void*> order_;       // reads in the order of their turns, the current one first
  uint32_t sent_in_turn_ = 0;
  std::multimap<int64_t, std::unique_ptr<Transfer>> later_;  // by begin_ns
};

}  // namespace forebay::io::http
