// The clock of code that has deadlines. It is passed in, so that a simulator can replace it.
#pragma once

#include <cstdint>

#include "base/mutex.h"

namespace forebay::io {

// Any thread may call anything.
class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since some fixed moment; the value never decreases.
  virtual int64_t now_ns() const = 0;
  // Nanoseconds since 1970 by the system's wall clock, which may be wrong and may jump. Use it only
  // for times that others give as dates, and now_ns() for waiting.
  virtual int64_t wall_ns() const;
  // Waits until `condition` is notified or the clock reaches `deadline_ns`; returns false in the
  // latter case. The caller holds `mutex`, and checks in a loop what it waits for.
  virtual bool wait_until(base::Mutex& mutex, base::CondVar& condition, int64_t deadline_ns) const
      REQUIRES(mutex) = 0;
};

// The system's monotonic clock, which monotonic_ns() reads.
const Clock& monotonic_clock();

}  // namespace forebay::io
