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
  // One weight for each sample of a dataset, in any proportion. Errors: kInvalid, when a weight is
  // negative or not finite, or when none is above 0.
  static base::Result<SampleWeights> make(std::span<const double> weights);

  // The same from the ends() of another one. Errors: kInvalid, when they are none.
  static base::Result<SampleWeights> from_ends(std::vector<uint64_t> ends);
  // The weights as whole numbers, each with the sum of those before it added.
  std::span<const uint64_t> ends() const { return ends_; }

  // Returns how many samples have a weight.
  uint64_t size() const { return ends_.size(); }
  // The sample at a position of an epoch. It depends on nothing else, and takes O(log size()).
  // `epoch` below 2^32, `position` below 2^48.
  uint64_t draw(uint64_t seed, uint64_t epoch, uint64_t position) const;

 private:
  std::vector<uint64_t> ends_;
};

}  // namespace forebay::feed
