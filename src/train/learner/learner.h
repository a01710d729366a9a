// The interface that a run drives: a model that learns from batches and is validated on them.
// single_learner.h implements it. run.h decides when the functions are called and what is stored.
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

// A step is two calls: gradients() computes the gradients, apply() updates the weights with them.
// Between the two calls the gradients of several processes are combined. One thread at a time may
// use a learner.
class Learner {
 public:
  virtual ~Learner() = default;

  // Turns a batch into the tensors that gradients() takes, on the model's device (Intake::take).
  virtual Samples take(const std::shared_ptr<const feed::Batch>& batch) const = 0;

  // Computes the loss of one batch and stores the gradients in the weights' grad(), in place of
  // earlier ones. Samples without a label are ignored. `meanwhile` may be empty. It is called once:
  // on a GPU after all work has been given to it, while it computes; on the processor after the
  // work. If no sample has a label, it is not called. Errors: kInvalid when the loss is not finite;
  // then the weights are unchanged, but the batch norms' running statistics have changed.
  virtual Result<BatchResult> gradients(const Samples& samples,
                                        const std::function<void()>& meanwhile) = 0;
  Result<BatchResult> gradients(const Samples& samples) { return gradients(samples, {}); }
  // Whether there are gradients that apply() has not used yet.
  virtual bool has_gradients() const = 0;
  // Updates the weights with the gradients, which can be used once.
  virtual void apply(double rate) = 0;
  // The schedule's learning rate at a step; steps count over the whole run.
  virtual double rate(uint64_t step) const = 0;

  // Validates the model on one epoch of `feed`, with each valid sample once. Errors are the feed's.
  virtual Result<EvalResult> evaluate(feed::Feed& feed, uint64_t epoch) = 0;

  // Moves all weights into one tensor and their gradients into another. From then on there are
  // gradients after each gradients(): they are zero if no sample had a label.
  virtual FlatNumbers flatten() = 0;
  // The model that is validated and stored.
  virtual const Model& model() const = 0;
  // All tensors that steps change and that later steps depend on.
  virtual std::vector<Named> state() const = 0;
};

}  // namespace forebay::train
