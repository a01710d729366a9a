// Into how many partitions a model is cut for one link, so that sending one of them in each step
// uses the link's bandwidth and no more.
#pragma once

#include <cstdint>

namespace forebay::train {

// p = ceil(γ m / B) for a model of m bytes, γ steps a second and a link of B bytes a second, where
// B is this link's part of what the process can send: with n processes that share one network card
// evenly it is the same as ceil(γ (n - 1) m / B).
class Partitions {
 public:
  // `floats` is the size of the model, above 0; `least` is the least p, above 0.
  explicit Partitions(uint64_t floats, uint32_t least = 1);

  // The link carries so many floats in the time of one step, above 0. The number of partitions
  // follows only where it is off by more than a fifth, so that noise does not move it.
  void follow(double floats_per_step);

  uint32_t count() const { return count_; }
  // The number of floats to send in each step.
  uint64_t floats_per_step() const { return (floats_ + count_ - 1) / count_; }

 private:
  uint64_t floats_;
  uint32_t least_;
  uint32_t count_;  // until the first measurement as if the link were fast
};

}  // namespace forebay::train
