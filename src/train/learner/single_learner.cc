#include "train/learner/single_learner.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>

namespace forebay::train {

using base::Code;
using base::fail;

namespace {

at::Tensor loss_of(const at::Tensor& logits, const at::Tensor& labels, at::Reduction::Reduction how,
                   double smoothing) {
  return at::cross_entropy_loss(logits, labels, {}, how, kNoLabel, smoothing);
}

// Returns the number of correct predictions.
at::Tensor count_of(const at::Tensor& logits, const at::Tensor& labels) {
  return logits.argmax(1).eq(labels).sum();
}

}  // namespace

SingleLearner::SingleLearner(Model& model, const Options& options)
    : model_(model),
      options_(options),
      intake_(model.device(), options.precision),
      sgd_(model, options.sgd) {}

std::vector<Named> SingleLearner::state() const {
  std::vector<Named> all = model_.state();
  all.insert(all.end(), sgd_.state().begin(), sgd_.state().end());
  return all;
}

at::Tensor SingleLearner::flatten_weights() {
  const c10::NoGradGuard no_grad;
  int64_t total = 0;
  for (const at::Tensor& weight : sgd_.weights()) total += weight.numel();
  numbers_.weights = at::empty(total, at::TensorOptions(at::kFloat).device(model_.device()));
  int64_t begin = 0;
  for (const at::Tensor& weight : sgd_.weights()) {
    const at::Tensor part = numbers_.weights.as_strided(weight.sizes(), weight.strides(), begin);
    part.copy_(weight);
    weight.set_data(part);
    begin += weight.numel();
  }
  return numbers_.weights;
}

FlatNumbers SingleLearner::flatten() {
  flatten_weights();
  numbers_.gradient = at::zeros_like(numbers_.weights);
  numbers_.sizes.clear();
  int64_t begin = 0;
  for (const at::Tensor& weight : sgd_.weights()) {
    weight.mutable_grad() = numbers_.gradient.as_strided(weight.sizes(), weight.strides(), begin);
    numbers_.sizes.push_back(static_cast<uint64_t>(weight.numel()));
    begin += weight.numel();
  }
  numbers_.momentum.clear();
  for (const Named& named : sgd_.state()) numbers_.momentum.push_back(named.tensor);
  return numbers_;
}

Result<BatchResult> SingleLearner::gradients(const Samples& samples,
                                             const std::function<void()>& meanwhile) {
  const bool is_flat = numbers_.gradient.defined();
  has_gradients_ = is_flat;
  if (is_flat) {
    numbers_.gradient.zero_();
  } else {
    sgd_.clear();
  }
  BatchResult result;
  result.samples = samples.labelled;
  // The mean loss of no samples would be NaN.
  if (result.samples == 0) return result;
  const at::Tensor logits = model_.forward(samples.images, true);
  const at::Tensor loss =
      loss_of(logits, samples.labels, at::Reduction::Mean, options_.label_smoothing);
  loss.backward();
  const at::Tensor correct = count_of(logits.detach(), samples.labels);
  if (meanwhile) meanwhile();
  // item() waits for the GPU.
  result.loss = loss.item<double>();
  result.correct = static_cast<uint64_t>(correct.item<int64_t>());
  if (!std::isfinite(result.loss)) {
    return fail(Code::kInvalid, "the loss is {} at epoch {}, step {}", result.loss, samples.epoch,
                samples.step);
  }
  has_gradients_ = true;
  return result;
}

void SingleLearner::apply(double rate) {
  FOREBAY_CHECK(has_gradients_);
  has_gradients_ = false;
  sgd_.step(rate);
}

at::Tensor SingleLearner::predict(const at::Tensor& images) const {
  constexpr int64_t kAcross = 3;
  const at::Tensor logits = model_.forward(images, false);
  if (!options_.evaluate_flipped) return logits;
  return (logits + model_.forward(images.flip(kAcross), false)) / 2;
}

Result<EvalResult> SingleLearner::evaluate(feed::Feed& feed, uint64_t epoch) {
  const c10::NoGradGuard no_grad;
  EvalResult result;
  RETURN_IF_ERROR(feed.start({epoch, 0, {}}));
  ASSIGN_OR_RETURN(auto batch, feed.next());
  while (batch) {
    const Samples samples = take(batch);
    const at::Tensor logits = predict(samples.images);
    const at::Tensor loss = loss_of(logits, samples.labels, at::Reduction::Sum, 0);
    const at::Tensor correct = count_of(logits, samples.labels);
    ASSIGN_OR_RETURN(batch, feed.next());
    result.samples += samples.labelled;
    result.correct += static_cast<uint64_t>(correct.item<int64_t>());
    result.loss += loss.item<double>();
  }
  if (result.samples > 0) result.loss /= static_cast<double>(result.samples);
  return result;
}

}  // namespace forebay::train
