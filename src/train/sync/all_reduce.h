// Takes the mean of all processes' gradients in each step. Collectives of the process group sum the
// gradients in buckets; the first sums start before the backward pass has ended.
#pragma once

#include <deque>
#include <vector>

#include "train/sync/strategy.h"

namespace forebay::train {

class AllReduce final : public Strategy {
 public:
  // Buckets are cut from the end of the model, because a backward pass begins there. `sizes` are
  // the sizes of the model's tensors in their order; they add up to the model's size.
  AllReduce(uint32_t processes, const std::vector<uint64_t>& sizes);

  void gradient_ready(std::span<float> gradient, Range range) override;
  void gradient_done(std::span<float> gradient) override;
  bool must_wait() const override;
  Status before_update(std::span<float> gradient) override;
  bool wants_weights() const override { return false; }
  Status lost(uint32_t /*peer*/) override { return {}; }
  std::span<float> next_reduction() override;
  void reduced() override { ++done_; }

 private:
  struct Bucket {
    Range range;
    uint64_t missing = 0;  // how many floats have no gradient yet
  };
  void set_ready();

  const uint32_t processes_;
  std::span<float> gradient_;
  std::vector<Bucket> buckets_;  // in the order of the reductions
  size_t ready_ = 0;             // buckets whose gradients are complete
  size_t given_ = 0;             // buckets handed to the collective thread
  size_t done_ = 0;              // buckets that were summed
  bool is_in_step_ = false;      // between gradient_done() and before_update()
};

}  // namespace forebay::train
