#include "train/learner/sgd.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <numbers>

namespace forebay::train {

double Schedule::at(uint64_t step) const {
  if (step < warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  }
  if (step >= total_steps) return 0;
  const double done =
      static_cast<double>(step - warmup_steps) / static_cast<double>(total_steps - warmup_steps);
  return peak * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

Sgd::Sgd(const Model& model, const Options& options)
    : options_(options), decayed_(model.decayed().size()) {
  for (const auto* list : {&model.decayed(), &model.undecayed()}) {
    for (const Named& named : *list) {
      weights_.push_back(named.tensor);
      momentum_.push_back(at::zeros_like(named.tensor.detach()));
      state_.push_back({"momentum." + named.name, momentum_.back()});
    }
  }
}

void Sgd::clear() {
  for (at::Tensor& weight : weights_) weight.mutable_grad() = at::Tensor();
}

void Sgd::step(double rate) {
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& weight : weights_) gradients.push_back(weight.grad());
  const at::TensorList all(weights_);
  at::_foreach_add_(at::TensorList(gradients).slice(0, decayed_), all.slice(0, decayed_),
                    options_.weight_decay);
  at::_foreach_mul_(momentum_, options_.momentum);
  at::_foreach_add_(momentum_, gradients);
  if (options_.nesterov) {
    at::_foreach_add_(all, gradients, -rate);
    rate *= options_.momentum;
  }
  at::_foreach_add_(all, momentum_, -rate);
}

}  // namespace forebay::train
