// A model that learns from batches and is measured on them. This file has the two halves of a step,
// and the evaluation; run.h decides when they are called and what is kept of their results.
#pragma once

#include <functional>

#include "feed/feed.h"
#include "train/learner/flat_numbers.h"
#include "train/learner/intake.h"
#include "train/learner/sgd.h"

namespace forebay::train {

// How well the model did on one batch, before the update.
struct BatchResult {
  double loss = 0;       // the mean over the samples that have a label
  uint64_t samples = 0;  // the number of samples that have a label
  uint64_t correct = 0;
};

struct EvalResult {
  double loss = 0;
  uint64_t samples = 0;  // the number of samples that have a label
  uint64_t correct = 0;
  // The share of correct predictions, from 0 to 1.
  double accuracy() const {
    return samples == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(samples);
  }
};

// A step is two calls: gradients() computes, apply() updates the weights. Whoever combines several
// learners' gradients does so between the two. One thread at a time may use a learner.
class Learner {
 public:
  struct Options {
    Precision precision = Precision::kFp32;
    Sgd::Options sgd;
    Schedule schedule;
    double label_smoothing = 0;
    // Whether evaluate() takes the mean of the logits of each image and of its mirror image.
    bool evaluate_flipped = false;
  };
  // `model` must outlive the learner, and be where it learns already.
  Learner(Model& model, const Options& options);

  // Gives a batch as gradients() takes it, on the model's device (Intake::take).
  Samples take(const std::shared_ptr<const feed::Batch>& batch) const {
    return intake_.take(batch);
  }

  // Computes the loss of one batch and leaves the gradients at the weights, in place of earlier
  // ones. Samples without a label take no part; where none has a label there are no gradients, and
  // apply() must not follow. Errors: kInvalid when the loss is not finite; the weights stay as they
  // were then (the batch norms' running statistics do not). `meanwhile` is called when a
  // GPU has all its work and computes; on the processor there is nothing left to do then, and where
  // no sample has a label it is not called.
  Result<BatchResult> gradients(const Samples& samples,
                                const std::function<void()>& meanwhile = {});

  // Updates the weights with the gradients that the last gradients() left, once.
  void apply(double rate);

  // The schedule's learning rate at a step, counted over the whole run.
  double rate(uint64_t step) const { return options_.schedule.at(step); }

  // Measures the model on one epoch of `feed`, with each valid sample once. Errors are the feed's.
  Result<EvalResult> evaluate(feed::Feed& feed, uint64_t epoch);

  // Moves all weights, which must be on the processor, into one piece of memory and their gradients
  // into another. From then on apply() may follow every gradients(), also where no sample had a
  // label: the gradient is zero then.
  FlatNumbers flatten();

  // All tensors that gradients() and apply() change and that later steps depend on.
  std::vector<Named> state() const;

 private:
  at::Tensor predict(const at::Tensor& images) const;

  Model& model_;
  Options options_;
  Intake intake_;
  Sgd sgd_;
  at::Tensor flat_weights_;  // undefined until flatten()
  at::Tensor flat_gradient_;
  bool has_gradients_ = false;  // whether there are gradients that apply() has not used yet
};

}  // namespace forebay::train
