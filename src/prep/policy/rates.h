// How long the host, a prep server or the consumer takes for a step, estimated from what is
// observed.
#pragma once

#include <array>
#include <cstdint>

namespace forebay::prep {

// The usual time of one step. A single step that is far off changes nothing, so that a pause does
// not look like a slow maker; two in a row do.
class Period {
 public:
  Period() = default;
  // What it was before, of which nobody is sure; 0: it is not known.
  explicit Period(double ns) : ns_(ns) {}

  void add(double sample_ns);
  // A step was given up after it had taken this long. Where that is much longer than usual, or
  // happens again, the next sample replaces what is assumed now.
  void add_unfinished(double elapsed_ns);

  // Whether a step was observed. is_sure(): and none was given up since.
  bool is_known() const { return ns_ > 0; }
  bool is_sure() const { return samples_ > 0; }
  double ns() const { return ns_; }  // 0: not known
  // The least of the last three steps, which is what one takes when little delays it. 0 until there
  // were three.
  double least_ns() const;

 private:
  double ns_ = 0;
  uint64_t samples_ = 0;
  bool is_late_ = false;  // the last step was given up
  std::array<double, 3> last_ns_{};
};

// The same for one maker that works on one step after the other: a step takes the time since it was
// begun or, if that was later, since the one before was ready.
class PeriodOfMaker {
 public:
  PeriodOfMaker() = default;
  explicit PeriodOfMaker(double step_ns) : step_(step_ns) {}

  void ready(double began_ns, double now_ns) {
    step_.add(now_ns - start_ns(began_ns));
    ready_ns_ = now_ns;
  }
  // Something else made this step slow: it says nothing about the period.
  void ready_unmeasured(double now_ns) { ready_ns_ = now_ns; }
  void give_up(double began_ns, double now_ns) {
    step_.add_unfinished(now_ns - start_ns(began_ns));
    ready_ns_ = now_ns;
  }
  // When the work at the next step began, if it was asked for at `began_ns`.
  double start_ns(double began_ns) const { return began_ns > ready_ns_ ? began_ns : ready_ns_; }
  const Period& step() const { return step_; }

 private:
  Period step_;
  double ready_ns_ = 0;
};

}  // namespace forebay::prep
