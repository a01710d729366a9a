#include "train/learners/averaging/averaging.h"

#include <algorithm>
#include <new>

#include "base/limits.h"
#include "train/learners/averaging/local_sgd.h"
#include "train/learners/averaging/mean_gradient.h"
#include "train/learners/averaging/sma.h"

namespace forebay::train {

using base::Code;
using base::fail;

namespace {

// A learning rate that has fallen by this factor since the last restart begins a new stage. The
// rates of a schedule in steps fall by more, and a cosine comes here a few times.
constexpr float kStageFactor = 2;

}  // namespace

void Averaging::begin_step(double rate) {
  auto& [steps, highest] = progress_;
  const auto now = static_cast<float>(rate);
  highest = std::max(highest, now);
  steps += 1;
  is_due_ = steps >= static_cast<float>(options_.steps);
  restarts_ = is_due_ && now < highest && now * kStageFactor <= highest;
  if (is_due_) steps = 0;
  if (restarts_) highest = now;
}

void Averaging::restart(std::span<const LearnerNumbers> learners, Range range) {
  check(learners, range);
  const auto from = std::span(central_).subspan(range.begin, range.count);
  for (const LearnerNumbers& learner : learners) {
    std::ranges::copy(from, learner.weights.subspan(range.begin).begin());
  }
}

Status Averaging::resize(uint32_t learners) {
  AveragingOptions changed = options_;
  changed.learners = learners;
  RETURN_IF_ERROR(check_averaging(changed));
  options_ = std::move(changed);
  progress_[0] = 0;
  return {};
}

void Averaging::check(std::span<const LearnerNumbers> learners, Range range) const {
  FOREBAY_CHECK(learners.size() == options_.learners);
  FOREBAY_CHECK(range.begin <= central_.size() && range.count <= central_.size() - range.begin);
  for (const LearnerNumbers& learner : learners) {
    FOREBAY_CHECK(learner.weights.size() == central_.size());
  }
}

Status check_averaging(const AveragingOptions& o) {
  if (o.learners == 0 || o.learners > base::kLearnersMax) {
    return fail(Code::kInvalid, "--learners {}: use 1 to {}", o.learners, base::kLearnersMax);
  }
  if (o.kind != "sma" && o.kind != "sgd" && o.kind != "local") {
    return fail(Code::kInvalid, "--averaging {}: use sma, sgd or local", o.kind);
  }
  if (o.steps == 0 || o.steps > base::kAveragingStepsMax) {
    return fail(Code::kInvalid, "--averaging-steps {}: use 1 to {}", o.steps,
                base::kAveragingStepsMax);
  }
  if (o.kind == "sgd" && o.steps != 1) {
    return fail(Code::kInvalid,
                "--averaging-steps {}: --averaging sgd takes the mean of the gradients in each "
                "step; leave it out, or use --averaging local",
                o.steps);
  }
  if (o.kind == "sma") return check_sma(o.rate, o.momentum, o.learners);
  if (o.rate != 0) {
    return fail(Code::kInvalid, "--averaging-rate is for --averaging sma only; leave it out");
  }
  return {};
}

Result<std::unique_ptr<Averaging>> make_averaging(const AveragingOptions& options,
                                                  std::span<const float> weights) {
  RETURN_IF_ERROR(check_averaging(options));
  try {
    if (options.kind == "sgd") return std::make_unique<MeanGradient>(options, weights);
    if (options.kind == "local") return std::make_unique<LocalSgd>(options, weights);
    return std::make_unique<Sma>(options, weights);
  } catch (const std::bad_alloc&) {
    return fail(Code::kNoMemory, "--learners {}: not enough memory to average {} learners",
                options.learners, options.learners);
  }
}

}  // namespace forebay::train
