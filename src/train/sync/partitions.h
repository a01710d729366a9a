// The number of partitions of a model for one link: so many that sending one partition in each step
// takes the link's whole bandwidth and no more.
#pragma once

#include <cstdint>

namespace forebay::train {

// p = ceil(γ m / B) for a model of m bytes, γ steps a second and a link of B bytes a second. B is
// this link's part of what the process can send. If the links to n - 1 peers evenly share a network
// card of B' bytes a second, then p = ceil(γ (n - 1) m / B').
class Partitions {
 public:
  // `floats` is the size of the model, above 0; `least` is the least p, above 0.
  explicit Partitions(uint64_t floats, uint32_t least = 1);

  // Adapts p to a link that carries this many floats, above 0, in the time of one step. p changes
  // only if it is off by more than a fifth, so that noise does not change it.
  void follow(double floats_per_step);

  uint32_t count() const { return count_; }
  // The number of floats to send in each step.
  uint64_t floats_per_step() const { return (floats_ + count_ - 1) / count_; }

 private:
  uint64_t floats_;
  uint32_t least_;
  uint32_t count_;  // least_ until the first measurement
};

}  // namespace forebay::train
