// Local SGD: the learners train separately, and where a step averages, all of them take the mean of
// their weights. Their optimisers' momentum stays their own.
#pragma once

#include "train/learners/averaging/averaging.h"

namespace forebay::train {

class LocalSgd final : public Averaging {
 public:
  LocalSgd(const AveragingOptions& options, std::span<const float> weights)
      : Averaging(options, weights) {}

  void after_update(std::span<const LearnerNumbers> learners, Range range) override;
  void settle(std::span<const LearnerNumbers> learners, Range range) override;
};

}  // namespace forebay::train
