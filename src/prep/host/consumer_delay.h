// Measures whether the consumer's own work takes longer because other threads occupy the
// processors.
#pragma once

#include <cstdint>

namespace forebay::prep {

// One thread at a time may call it; a step that is worked at in one thread and ends in another is
// not measured.
class ConsumerDelay {
 public:
  // The consumer has got a step, and begins to work at it.
  void works();
  // The consumer asks for the next step.
  void asks();
  // The time until the next works() is not to be measured.
  void rests() { began_ = {}; }
  // Whether the consumer lately waited for a processor for more than a tenth of its time. Steps in
  // which the process's other threads hardly worked count little, because they do not show what
  // that work costs.
  bool is_long() const { return delay_ns_ > 0.1 * work_ns_; }

 private:
  // Clock readings of the calling thread.
  struct Moment {
    const void* thread = nullptr;
    int64_t now_ns = 0;
    int64_t delay_ns = 0;
    int64_t others_cpu_ns = 0;  // of the process's other threads
  };
  static Moment now();

  Moment began_;
  // Moving averages, in which a new step has a weight of a quarter, or less if the other threads
  // hardly worked.
  double work_ns_ = 0;
  double delay_ns_ = 0;
};

}  // namespace forebay::prep
