#include "prep/consumer_delay.h"

#include <utility>

#include "io/machine.h"

namespace forebay::prep {

ConsumerDelay::Moment ConsumerDelay::now() {
  static thread_local const char here = 0;  // its address tells threads apart
  return {.thread = &here, .now_ns = io::monotonic_ns(), .delay_ns = io::thread_delay_ns()};
}

void ConsumerDelay::works() { began_ = now(); }

void ConsumerDelay::asks() {
  const Moment ends = now();
  const Moment began = std::exchange(began_, {});
  if (began.thread != ends.thread) return;
  work_ns_ += (static_cast<double>(ends.now_ns - began.now_ns) - work_ns_) / 4;
  delay_ns_ += (static_cast<double>(ends.delay_ns - began.delay_ns) - delay_ns_) / 4;
}

}  // namespace forebay::prep
