// A model that learns from batches and is measured on them: one step, one evaluation. When, how
// often and what is kept of it is run.h's.
#pragma once

#include "feed/feed.h"
#include "train/precision.h"
#include "train/sgd.h"

namespace forebay::train {

// The batch's images as a tensor [samples, 3, size, size] over the same memory, which lives as long
// as the tensor does. The feed's layout must be NHWC, its type float32 or bfloat16.
at::Tensor wrap_images(const std::shared_ptr<const feed::Batch>& batch, Precision precision);

struct StepResult {
  double loss = 0;
  double rate = 0;
  uint64_t samples = 0;
  uint64_t correct = 0;
};

struct EvalResult {
  double loss = 0;
  uint64_t samples = 0;  // that have a label
  uint64_t correct = 0;
  double accuracy() const {
    return samples == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(samples);
  }
};

class Learner {
 public:
  struct Options {
    Precision precision = Precision::kFp32;
    Sgd::Options sgd;
    Schedule schedule;
    double label_smoothing = 0;
    // evaluate() takes the mean of the logits of each image and of its mirror image.
    bool evaluate_flipped = false;
  };
  // `model` outlives the learner.
  Learner(Model& model, const Options& options);

  // Learns from one batch; `step` counts over the whole run. Samples without a label take no part.
  // kInvalid when the loss is not a number: what is learned stays as it was (the batch norms'
  // running statistics do not).
  Result<StepResult> step(const std::shared_ptr<const feed::Batch>& batch, uint64_t step);

  // Measures the model on one epoch of `feed`, each valid sample once.
  Result<EvalResult> evaluate(feed::Feed& feed, uint64_t epoch);

  // All that step() changes.
  std::vector<Named> state() const;

 private:
  at::Tensor predict(const at::Tensor& images) const;

  Model& model_;
  Options options_;
  Sgd sgd_;
};

}  // namespace forebay::train
