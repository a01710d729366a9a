// Draws samples by their weights, with replacement. The draws come from our own random numbers and
// exact integers, so that every compiler and machine draws the same. How: docs/feed.md.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"

namespace forebay::feed {

// Immutable; any thread may call anything.
class SampleWeights {
 public:
  // One weight for each sample of a dataset; only their proportions matter. Errors: kInvalid, when
  // a weight is negative or not finite, or when none is above 0.
  static base::Result<SampleWeights> make(std::span<const double> weights);

  // Makes the weights again from their ends(). Errors: kInvalid if `ends` cannot be these.
  static base::Result<SampleWeights> from_ends(std::vector<uint64_t> ends);
  // The weights as whole numbers, each added to the sum of the weights before it.
  std::span<const uint64_t> ends() const { return ends_; }

  // Returns the number of weights, one for each sample.
  uint64_t size() const { return ends_.size(); }
  // Draws the sample at a position of an epoch, which depends on nothing but the weights and the
  // arguments. Takes O(log size()). `epoch` below 2^32, `position` below 2^48.
  uint64_t draw(uint64_t seed, uint64_t epoch, uint64_t position) const;

 private:
  std::vector<uint64_t> ends_;
};

}  // namespace forebay::feed
