#include "train/learners/averaging/local_sgd.h"

#include <algorithm>

namespace forebay::train {

void LocalSgd::after_update(std::span<const LearnerNumbers> learners, Range range) {
  if (!is_due()) return;
  settle(learners, range);
  restart(learners, range);
}

// Sets the central model to the mean of the learners' weights.
void LocalSgd::settle(std::span<const LearnerNumbers> learners, Range range) {
  check(learners, range);
  const std::span<float> mean = central().subspan(range.begin, range.count);
  std::ranges::copy(learners.front().weights.subspan(range.begin, range.count), mean.begin());
  for (const LearnerNumbers& learner : learners.subspan(1)) {
    const auto weights = learner.weights.subspan(range.begin, range.count);
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += weights[i];
  }
  const auto count = static_cast<float>(learners.size());
  for (float& number : mean) number /= count;
}

}  // namespace forebay::train
