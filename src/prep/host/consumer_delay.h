// Whether the consumer's own work takes longer because others have the processors that it needs.
#pragma once

#include <cstdint>

namespace forebay::prep {

// One thread after the other calls it, and each for itself.
class ConsumerDelay {
 public:
  // The consumer has got a step, and works at it.
  void works();
  // The consumer asks for the next step.
  void asks();
  // What it does until the next step is something else.
  void rests() { began_ = {}; }
  // Whether it missed the processors for more than a tenth of its time, of late. Steps in which the
  // process's other threads hardly worked say nothing about what their work costs, and change
  // little.
  bool is_long() const { return delay_ns_ > 0.1 * work_ns_; }

 private:
  // The times that a thread has now.
  struct Moment {
    const void* thread = nullptr;
    int64_t now_ns = 0;
    int64_t delay_ns = 0;
    int64_t others_cpu_ns = 0;  // of the process's other threads
  };
  static Moment now();

  Moment began_;
  // Averages of the last steps, in which a step counts a quarter, or less where others hardly
  // worked.
  double work_ns_ = 0;
  double delay_ns_ = 0;
};

}  // namespace forebay::prep
