#include "io/clock.h"

#include "io/machine.h"

namespace forebay::io {
namespace {

class MonotonicClock final : public Clock {
 public:
  int64_t now_ns() const override { return monotonic_ns(); }
  bool wait_until(base::Mutex& mutex, base::CondVar& condition, int64_t deadline_ns) const override
      REQUIRES(mutex) {
    return condition.wait_until(mutex, deadline_ns);
  }
};

}  // namespace

int64_t Clock::wall_ns() const { return io::wall_ns(); }

const Clock& monotonic_clock() {
  static const MonotonicClock clock;
  return clock;
}

}  // namespace forebay::io
