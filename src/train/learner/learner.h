// What a run drives: a model that learns from batches and is measured on them. One learner
// implements it (single_learner.h); run.h decides when the functions are called and what is kept.
#pragma once

#include <functional>

#include "feed/feed.h"
#include "train/learner/flat_numbers.h"
#include "train/learner/intake.h"
#include "train/model/model.h"

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

// A step is two calls: gradients() computes, apply() updates the weights. Gradients of several
// processes are combined between the two. One thread at a time may use a learner.
class Learner {
 public:
  virtual ~Learner() = default;

  // Gives a batch as gradients() takes it, on the model's device (Intake::take).
  virtual Samples take(const std::shared_ptr<const feed::Batch>& batch) const = 0;

  // Computes the loss of one batch and leaves the gradients at the weights, in place of earlier
  // ones. Samples without a label take no part. `meanwhile` may be empty; it is called once when a
  // GPU has all its work and computes, and on the processor after the work, but not if no sample
  // has a label. Errors: kInvalid when the loss is not finite; the weights stay as they were then,
  // and the batch norms' running statistics do not.
  virtual Result<BatchResult> gradients(const Samples& samples,
                                        const std::function<void()>& meanwhile) = 0;
  Result<BatchResult> gradients(const Samples& samples) { return gradients(samples, {}); }
  // Whether the last gradients() left gradients that apply() has not used yet.
  virtual bool has_gradients() const = 0;
  // Updates the weights with these gradients, once.
  virtual void apply(double rate) = 0;
  // The schedule's learning rate at a step, counted over the whole run.
  virtual double rate(uint64_t step) const = 0;

  // Measures the model on one epoch of `feed`, with each valid sample once. Errors are the feed's.
  virtual Result<EvalResult> evaluate(feed::Feed& feed, uint64_t epoch) = 0;

  // Moves all weights into one piece of memory and their gradients into another. From then on every
  // gradients() leaves gradients: they are zero if no sample had a label.
  virtual FlatNumbers flatten() = 0;
  // The model that is measured and kept.
  virtual const Model& model() const = 0;
  // All tensors that gradients() and apply() change and that later steps depend on.
  virtual std::vector<Named> state() const = 0;
};

}  // namespace forebay::train
