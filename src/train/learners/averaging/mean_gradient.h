// Synchronous SGD over learners: each updates its weights with the mean of all gradients, so all
// learners have the same weights. That is one learner with a batch that is as many times larger,
// except that batch norms see each learner's own samples.
#pragma once

#include "train/learners/averaging/averaging.h"

namespace forebay::train {

class MeanGradient final : public Averaging {
 public:
  MeanGradient(const AveragingOptions& options, std::span<const float> weights)
      : Averaging(options, weights) {}

  void before_update(std::span<const LearnerNumbers> learners, Range range) override;
  void settle(std::span<const LearnerNumbers> learners, Range range) override;
};

}  // namespace forebay::train
