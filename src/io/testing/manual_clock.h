// A clock that moves only when a test moves it.
#pragma once

#include <algorithm>
#include <vector>

#include "io/clock.h"

namespace forebay::io {

class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t wall_ns) : wall_ns_(wall_ns) {}

  int64_t now_ns() const override {
    base::MutexLock lock(mutex_);
    return now_ns_;
  }
  int64_t wall_ns() const override {
    base::MutexLock lock(mutex_);
    return wall_ns_;
  }
  bool wait_until(base::Mutex& mutex, base::CondVar& condition, int64_t deadline_ns) const override
      REQUIRES(mutex) {
    {
      base::MutexLock lock(mutex_);
      if (now_ns_ >= deadline_ns) return false;
      waiting_.push_back({&mutex, &condition});
      arrived_.notify_all();
    }
    condition.wait(mutex);
    base::MutexLock lock(mutex_);
    const auto self = std::find_if(waiting_.begin(), waiting_.end(),
                                   [&](const Waiter& w) { return w.condition == &condition; });
    if (self != waiting_.end()) waiting_.erase(self);
    return now_ns_ < deadline_ns;
  }

  // Moves both clocks, or the wall clock alone, and wakes all waiting threads.
  void advance(int64_t ns) { move(ns, ns); }
  void jump_wall(int64_t ns) { move(0, ns); }
  // Waits until a thread waits for this clock, and has seen its last move.
  void wait_for_waiter() const {
    base::MutexLock lock(mutex_);
    while (waiting_.empty()) arrived_.wait(mutex_);
  }

 private:
  struct Waiter {
    base::Mutex* mutex;
    base::CondVar* condition;
  };

  void move(int64_t ns, int64_t wall_ns) {
    std::vector<Waiter> woken;  // threads that wait again come back to the list
    {
      base::MutexLock lock(mutex_);
      now_ns_ += ns;
      wall_ns_ += wall_ns;
      woken.swap(waiting_);
    }
    for (const Waiter& waiter : woken) {
      // While this thread holds the mutex, no waiter is between its look at the clock and its wait.
      base::MutexLock lock(*waiter.mutex);
      waiter.condition->notify_all();
    }
  }

  mutable base::Mutex mutex_;
  mutable base::CondVar arrived_;
  mutable std::vector<Waiter> waiting_ GUARDED_BY(mutex_);
  int64_t now_ns_ GUARDED_BY(mutex_) = 1'000'000'000'000;
  int64_t wall_ns_ GUARDED_BY(mutex_);
};

}  // namespace forebay::io
