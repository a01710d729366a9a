#include "prep/host/consumer_delay.h"

#include <algorithm>
#include <utility>

#include "io/machine.h"

namespace forebay::prep {

ConsumerDelay::Moment ConsumerDelay::now() {
  static thread_local const char here = 0;  // its address tells threads apart
  return {.thread = &here,
          .now_ns = io::monotonic_ns(),
          .delay_ns = io::thread_delay_ns(),
          .others_cpu_ns = io::process_cpu_ns() - io::thread_cpu_ns()};
}

void ConsumerDelay::works() { began_ = now(); }

void ConsumerDelay::asks() {
  const Moment ends = now();
  const Moment began = std::exchange(began_, {});
  if (began.thread != ends.thread) return;
  const auto work_ns = static_cast<double>(ends.now_ns - began.now_ns);
  const auto delay_ns = static_cast<double>(ends.delay_ns - began.delay_ns);
  const auto others_ns = static_cast<double>(ends.others_cpu_ns - began.others_cpu_ns);
  if (work_ns <= 0) return;
  const double weight = std::clamp(2 * others_ns / work_ns, 0.0, 1.0) / 4;
  work_ns_ += weight * (work_ns - work_ns_);
  delay_ns_ += weight * (delay_ns - delay_ns_);
}

}  // namespace forebay::prep
