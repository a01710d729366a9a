#include "prep/policy/rates.h"

#include <algorithm>
#include <utility>

namespace forebay::prep {

void Period::add(double sample_ns) {
  is_late_ = false;
  const double sample = std::max(sample_ns, 1.0);
  last_ns_[samples_ % last_ns_.size()] = sample;
  ++samples_;
  if (samples_ == 1) {
    ns_ = sample;
    return;
  }
  // The very first step is often slow, because caches are cold.
  if (samples_ == 2) {
    ns_ = std::min(last_ns_[0], last_ns_[1]);
    return;
  }
  const auto [a, b, c] = last_ns_;
  const double median = std::max(std::min(a, b), std::min(std::max(a, b), c));
  // A weight of a quarter follows a drift within a handful of steps, and still averages over some.
  // A change by more than a factor of two is no drift, so the old estimate is dropped.
  const bool is_other = median > 2 * ns_ || 2 * median < ns_;
  ns_ += (median - ns_) * (is_other ? 1 : 0.25);
}

double Period::least_ns() const {
  return samples_ < last_ns_.size() ? 0 : *std::min_element(last_ns_.begin(), last_ns_.end());
}

void Period::add_unfinished(double elapsed_ns) {
  if (elapsed_ns <= ns_) return;
  // The first time, the step may just be late.
  if (samples_ > 0 && elapsed_ns <= 2 * ns_ && !std::exchange(is_late_, true)) {
    ns_ = 1.25 * elapsed_ns;
    return;
  }
  // Doubling finds the right order of magnitude after few steps given up.
  ns_ = 2 * elapsed_ns;
  samples_ = 0;
}

}  // namespace forebay::prep
