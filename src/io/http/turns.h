// Which of the waiting requests is sent next, so that nobody waits for somebody else's long queue.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "io/http/transfer.h"

namespace forebay::io::http {

// Questions go first, in their order. Range reads take turns: each sends a few requests, in their
// order, and then the next read does. A request that must wait for its time comes to the front of
// its queue when the time has come. One thread at a time.
class Turns {
 public:
  void push(std::unique_ptr<Transfer> transfer);
  // Takes the request that is to be sent now; null where there is none. Without a place among the
  // running ones only a hedge is sent, which takes over the place of the request that it repeats.
  std::unique_ptr<Transfer> pop(int64_t now_ns, bool may_send);
  // Takes out all requests that are over.
  std::vector<std::unique_ptr<Transfer>> take_if(
      const std::function<bool(const Transfer&)>& is_over);
  // When pop() can next give something: 0 for at once, INT64_MAX for never.
  int64_t next_ns(bool may_send) const;
  bool empty() const;

 private:
  using Queue = std::deque<std::unique_ptr<Transfer>>;

  void wake(int64_t now_ns);
  std::unique_ptr<Transfer> pop_of_read();

  Queue hedges_;
  Queue questions_;
  std::map<const void*, Queue> reads_;  // without empty queues
  std::deque<const void*> order_;       // of their turns; the first one is at its turn
  uint32_t sent_in_turn_ = 0;
  std::multimap<int64_t, std::unique_ptr<Transfer>> later_;  // by begin_ns
};

}  // namespace forebay::io::http
