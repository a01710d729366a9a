// Time, handed to whatever waits with a deadline, so that a simulator can hand in its own.
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
  // Nanoseconds since 1970 by the system's wall clock, which may be wrong and may jump. It is only
  // for moments that others name by the date; whatever waits uses now_ns().
  virtual int64_t wall_ns() const;
  // Waits until `condition` is notified or the clock reads `deadline_ns`, and returns false in the
  // latter case. `mutex` is held by the caller, who checks what it waits for in a loop.
  virtual bool wait_until(base::Mutex& mutex, base::CondVar& condition, int64_t deadline_ns) const
      REQUIRES(mutex) = 0;
};

// The system's monotonic clock, the one that monotonic_ns() reads.
const Clock& monotonic_clock();

}  // namespace forebay::io
