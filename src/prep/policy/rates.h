// How long the host, a prep server or the consumer takes for a step, estimated from what is
// observed.
#pragma once

#include <array>
#include <cstdint>

namespace forebay::prep {

// The usual time for one step. A single outlier changes nothing, so that a pause does not look like
// a slow maker; two outliers in a row do.
class Period {
 public:
  Period() = default;
  // Starts from an earlier estimate, which may be outdated; 0: not known.
  explicit Period(double ns) : ns_(ns) {}

  void add(double sample_ns);
  // A step was given up after it had taken this long. If that is much longer than usual, or happens
  // again, the next sample replaces the estimate.
  void add_unfinished(double elapsed_ns);

  bool is_known() const { return ns_ > 0; }
  // Whether a step has finished since the start, and since add_unfinished() dropped the estimate.
  bool is_sure() const { return samples_ > 0; }
  double ns() const { return ns_; }  // 0: not known
  // The least of the last three steps: the time of a step that little delayed. 0 until there are
  // three.
  double least_ns() const;

 private:
  double ns_ = 0;
  uint64_t samples_ = 0;
  bool is_late_ = false;  // the last step was given up
  std::array<double, 3> last_ns_{};
};

// The period of a maker that works on one step after the other: a step's time counts from when it
// was asked for or, if that was later, from when the maker's previous step was ready.
class PeriodOfMaker {
 public:
  PeriodOfMaker() = default;
  explicit PeriodOfMaker(double step_ns) : step_(step_ns) {}

  void ready(double began_ns, double now_ns) {
    step_.add(now_ns - start_ns(began_ns));
    ready_ns_ = now_ns;
  }
  // For a step that other work slowed down: it does not change the period.
  void ready_unmeasured(double now_ns) { ready_ns_ = now_ns; }
  void give_up(double began_ns, double now_ns) {
    step_.add_unfinished(now_ns - start_ns(began_ns));
    ready_ns_ = now_ns;
  }
  // When work on the next step began, if the step was asked for at `began_ns`.
  double start_ns(double began_ns) const { return began_ns > ready_ns_ ? began_ns : ready_ns_; }
  const Period& step() const { return step_; }

 private:
  Period step_;
  double ready_ns_ = 0;
};

}  // namespace forebay::prep
