// How fast something works in a simulated world, as a function of time.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace forebay::prep {

// Steps per nanosecond, constant between given moments. Speed 0 is a pause, which always ends.
class Speed {
 public:
  explicit Speed(double period_ns) : pieces_{{0, 1 / period_ns}} {}
  // From `at_ns` on, a step takes `period_ns`; infinite: a pause. `at_ns` grows from call to call.
  void change(double at_ns, double period_ns) { pieces_.emplace_back(at_ns, 1 / period_ns); }

  // When `work` steps that begin at `start_ns` are done.
  double end_ns(double start_ns, double work) const {
    double now = start_ns;
    for (size_t i = place(start_ns);; ++i) {
      const double until = until_ns(i);
      const double done = (until - now) * pieces_[i].second;
      if (pieces_[i].second > 0 && done >= work) return now + work / pieces_[i].second;
      if (i + 1 == pieces_.size()) return std::numeric_limits<double>::infinity();
      work -= done;
      now = until;
    }
  }
  // How many steps are done between two moments.
  double work(double start_ns, double end_ns) const {
    double sum = 0;
    double now = start_ns;
    for (size_t i = place(start_ns); now < end_ns; ++i) {
      const double until = std::min(until_ns(i), end_ns);
      sum += (until - now) * pieces_[i].second;
      now = until;
    }
    return sum;
  }

 private:
  using Piece = std::pair<double, double>;  // start in nanoseconds, steps per nanosecond

  size_t place(double at_ns) const {
    const auto later = std::ranges::upper_bound(pieces_, at_ns, {}, &Piece::first);
    return later == pieces_.begin() ? 0 : static_cast<size_t>(later - pieces_.begin()) - 1;
  }
  double until_ns(size_t i) const {
    return i + 1 < pieces_.size() ? pieces_[i + 1].first : std::numeric_limits<double>::infinity();
  }

  std::vector<Piece> pieces_;
};

}  // namespace forebay::prep
