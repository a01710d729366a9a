#include "train/learners/averaging/mean_gradient.h"

#include <algorithm>

namespace forebay::train {

void MeanGradient::before_update(std::span<const LearnerNumbers> learners, Range range) {
  check(learners, range);
  uint64_t samples = 0;
  for (const LearnerNumbers& learner : learners) {
    FOREBAY_CHECK(learner.gradient.size() == learner.weights.size());
    samples += learner.samples;
  }
  if (samples == 0) return;  // all gradients are zero
  const auto mean = learners.front().gradient.subspan(range.begin, range.count);
  for (size_t j = 0; j < learners.size(); ++j) {
    const auto own = learners[j].gradient.subspan(range.begin, range.count);
    const auto share =
        static_cast<float>(static_cast<double>(learners[j].samples) / static_cast<double>(samples));
    for (size_t i = 0; i < mean.size(); ++i) {
      mean[i] = j == 0 ? share * own[i] : mean[i] + share * own[i];
    }
  }
  for (const LearnerNumbers& learner : learners.subspan(1)) {
    std::ranges::copy(mean, learner.gradient.subspan(range.begin).begin());
  }
}

void MeanGradient::settle(std::span<const LearnerNumbers> learners, Range range) {
  check(learners, range);
  std::ranges::copy(learners.front().weights.subspan(range.begin, range.count),
                    central().subspan(range.begin).begin());
}

}  // namespace forebay::train
