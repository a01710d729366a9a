#include "train/learner.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>

namespace forebay::train {

using base::Code;
using base::fail;

namespace {

constexpr int64_t kNoLabel = -1;

// Gives each sample's label, and kNoLabel also for the padding of a validation epoch's last batch.
at::Tensor labels_of(const feed::Batch& batch) {
  at::Tensor labels = at::empty(static_cast<int64_t>(batch.labels.size()), at::kLong);
  auto* out = labels.mutable_data_ptr<int64_t>();
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    const bool valid = batch.valid.empty() || batch.valid[i] != 0;
    out[i] = valid ? batch.labels[i] : kNoLabel;
  }
  return labels;
}

uint64_t count(const at::Tensor& flags) {
  return static_cast<uint64_t>(flags.sum().item<int64_t>());
}

at::Tensor loss_of(const at::Tensor& logits, const at::Tensor& labels, at::Reduction::Reduction how,
                   double smoothing) {
  return at::cross_entropy_loss(logits, labels, {}, how, kNoLabel, smoothing);
}

}  // namespace

at::Tensor wrap_images(const std::shared_ptr<const feed::Batch>& batch, Precision precision) {
  const auto samples = static_cast<int64_t>(batch->labels.size());
  const auto height = static_cast<int64_t>(batch->size.height);
  const auto width = static_cast<int64_t>(batch->size.width);
  const auto type = precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat;
  const int64_t bytes = samples * height * width * 3 * (type == at::kFloat ? 4 : 2);
  FOREBAY_CHECK(batch->images_bytes >= static_cast<size_t>(bytes));
  return at::from_blob(
             batch->images, {samples, height, width, 3}, [batch](void*) {}, type)
      .permute({0, 3, 1, 2});
}

Learner::Learner(Model& model, const Options& options)
    : model_(model), options_(options), sgd_(model, options.sgd) {}

std::vector<Named> Learner::state() const {
  std::vector<Named> all = model_.state();
  all.insert(all.end(), sgd_.state().begin(), sgd_.state().end());
  return all;
}

FlatNumbers Learner::flatten() {
  FOREBAY_CHECK(model_.device().is_cpu());
  const c10::NoGradGuard no_grad;
  FlatNumbers out;
  int64_t total = 0;
  for (const at::Tensor& weight : sgd_.weights()) {
    out.sizes.push_back(static_cast<uint64_t>(weight.numel()));
    total += weight.numel();
  }
  flat_weights_ = at::empty(total, at::kFloat);
  flat_gradient_ = at::zeros(total, at::kFloat);
  int64_t begin = 0;
  for (const at::Tensor& weight : sgd_.weights()) {
    const at::Tensor part = flat_weights_.as_strided(weight.sizes(), weight.strides(), begin);
    part.copy_(weight);
    weight.set_data(part);
    weight.mutable_grad() = flat_gradient_.as_strided(weight.sizes(), weight.strides(), begin);
    begin += weight.numel();
  }
  const auto floats = static_cast<size_t>(total);
  out.weights = {flat_weights_.mutable_data_ptr<float>(), floats};
  out.gradient = {flat_gradient_.mutable_data_ptr<float>(), floats};
  out.memory = std::make_shared<std::pair<at::Tensor, at::Tensor>>(flat_weights_, flat_gradient_);
  return out;
}

Result<BatchResult> Learner::gradients(const std::shared_ptr<const feed::Batch>& batch) {
  const bool is_flat = flat_gradient_.defined();
  has_gradients_ = is_flat;
  if (is_flat) {
    flat_gradient_.zero_();
  } else {
    sgd_.clear();
  }
  at::Tensor labels = labels_of(*batch);
  BatchResult result;
  result.samples = count(labels.ne(kNoLabel));
  // The mean over no samples would not be a number.
  if (result.samples == 0) return result;
  labels = labels.to(model_.device());
  const at::Tensor logits = model_.forward(images_of(batch), true);
  const at::Tensor loss = loss_of(logits, labels, at::Reduction::Mean, options_.label_smoothing);
  loss.backward();
  // A GPU is waited for here, when it has all its work.
  result.loss = loss.item<double>();
  result.correct = count(logits.detach().argmax(1).eq(labels));
  if (!std::isfinite(result.loss)) {
    return fail(Code::kInvalid, "the loss is {} at epoch {}, step {}", result.loss, batch->epoch,
                batch->step);
  }
  has_gradients_ = true;
  return result;
}

void Learner::apply(double rate) {
  FOREBAY_CHECK(has_gradients_);
  has_gradients_ = false;
  sgd_.step(rate);
}

at::Tensor Learner::images_of(const std::shared_ptr<const feed::Batch>& batch) const {
  return wrap_images(batch, options_.precision).to(model_.device());
}

at::Tensor Learner::predict(const at::Tensor& images) const {
  constexpr int64_t kAcross = 3;
  const at::Tensor logits = model_.forward(images, false);
  if (!options_.evaluate_flipped) return logits;
  return (logits + model_.forward(images.flip(kAcross), false)) / 2;
}

Result<EvalResult> Learner::evaluate(feed::Feed& feed, uint64_t epoch) {
  const c10::NoGradGuard no_grad;
  EvalResult result;
  RETURN_IF_ERROR(feed.start({epoch, 0, {}}));
  while (true) {
    ASSIGN_OR_RETURN(const auto batch, feed.next());
    if (!batch) break;
    const at::Tensor labels = labels_of(*batch).to(model_.device());
    const at::Tensor logits = predict(images_of(batch));
    result.samples += count(labels.ne(kNoLabel));
    result.correct += count(logits.argmax(1).eq(labels));
    result.loss += loss_of(logits, labels, at::Reduction::Sum, 0).item<double>();
  }
  if (result.samples > 0) result.loss /= static_cast<double>(result.samples);
  return result;
}

}  // namespace forebay::train
