// Synchronous model averaging (SMA) of Koliousis and others, "CROSSBOW: Scaling Deep Learning with
// Small Batch Sizes on Multi-GPU Servers", PVLDB 12(11), 2019. Each learner explores by itself and
// is drawn to the central model z, and z follows the learners with momentum. Where a step averages:
//
//   s_j = w_j                              before the update of learner j's weights w_j
//   c_j = α (s_j - z)
//   w_j = w_j - c_j                        after the update
//   z = z + Σ_j c_j + μ (z - z_prev)
//
// Where the learning rate has fallen by half since the last restart, the step ends with a restart:
// w_j = z for all learners and z_prev = z. The updates of that step then have no effect on any
// weight, since c_j comes from the weights before them; the optimisers' momentum keeps them.
#pragma once

#include "train/learners/averaging/averaging.h"

namespace forebay::train {

// The bound of α. Without gradients, the mean of the learners and z approach each other for a rate
// above 0 and below it, and drift apart above it: apart from 1, the eigenvalues of their recurrence
// are the roots of x² - (1 - α (1 + k) + μ) x + (1 - α) μ for k learners.
double sma_rate_bound(double momentum, uint32_t learners);

// The α that is used if none is given: 1 / k, or 0.9 of the bound if that is less, which happens
// only for one learner with little momentum.
double sma_rate(double momentum, uint32_t learners);

// Errors: kInvalid for an α that is unstable or below 0, and a momentum outside of 0 to below 1.
Status check_sma(double rate, double momentum, uint32_t learners);

class Sma final : public Averaging {
 public:
  // check_averaging() must have accepted the options. Throws std::bad_alloc.
  Sma(const AveragingOptions& options, std::span<const float> weights);

  void before_update(std::span<const LearnerNumbers> learners, Range range) override;
  void after_update(std::span<const LearnerNumbers> learners, Range range) override;
  void restart(std::span<const LearnerNumbers> learners, Range range) override;
  Status resize(uint32_t learners) override;
  std::vector<KeptNumbers> kept() override;

 private:
  // The c_j of a learner in a range.
  std::span<float> corrections(size_t learner, Range range) {
    return std::span(corrections_).subspan(learner * moved_.size() + range.begin, range.count);
  }

  std::vector<float> moved_;        // z - z_prev, which is more precise than z_prev itself
  std::vector<float> corrections_;  // all numbers of the first learner, then of the next
};

}  // namespace forebay::train
