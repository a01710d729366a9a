// SGD with momentum and weight decay, and the learning rate's way through a run.
#pragma once

#include "train/model.h"

namespace forebay::train {

struct Schedule {
  double peak = 0.4;
  uint64_t warmup_steps = 0;
  uint64_t total_steps = 1;

  // Linear from peak / warmup_steps up to `peak`, then a half cosine that would reach 0 at
  // `total_steps`. `step` counts from 0 over the whole run.
  double at(uint64_t step) const;
};

// torch.optim.SGD's rule: g = gradient + decay w; m = momentum m + g; w -= rate m, or, with
// Nesterov's momentum, w -= rate (g + momentum m). The decay leaves out biases and batch norms.
class Sgd {
 public:
  struct Options {
    double momentum = 0.9;
    bool nesterov = false;
    double weight_decay = 5e-4;
  };
  Sgd(const Model& model, const Options& options);

  const std::vector<at::Tensor>& weights() const { return weights_; }
  // Forgets the gradients; those of the next backward pass are then stored, not added.
  void clear();
  // Applies the gradients that lie at the weights.
  void step(double rate);
  // The momentum, "momentum." before each weight's name.
  const std::vector<Named>& state() const { return state_; }

 private:
  Options options_;
  std::vector<at::Tensor> weights_;  // the decayed first
  size_t decayed_ = 0;
  std::vector<at::Tensor> momentum_;
  std::vector<Named> state_;
};

}  // namespace forebay::train
