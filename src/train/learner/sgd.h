// SGD with momentum and weight decay, and the schedule of the learning rate over a run.
#pragma once

#include "train/model/model.h"

namespace forebay::train {

struct Schedule {
  double peak = 0.4;
  uint64_t warmup_steps = 0;
  uint64_t total_steps = 1;

  // Returns the rate at `step`, which counts from 0 over the whole run. The rate rises linearly
  // from peak / warmup_steps to `peak`, then falls like half a cosine, to 0 at `total_steps`.
  double at(uint64_t step) const;
};

// torch.optim.SGD's rule: g = gradient + decay w; m = momentum m + g; w -= rate m, or, with
// Nesterov's momentum, w -= rate (g + momentum m). Biases and batch norms do not decay.
class Sgd {
 public:
  struct Options {
    double momentum = 0.9;
    bool nesterov = false;
    double weight_decay = 5e-4;
  };
  Sgd(const Model& model, const Options& options);

  const std::vector<at::Tensor>& weights() const { return weights_; }
  // Drops the gradients, so that the next backward pass stores its gradients instead of adding.
  void clear();
  // Updates the weights with their gradients.
  void step(double rate);
  // The momentum tensors; the name of each is "momentum." and its weight's name.
  const std::vector<Named>& state() const { return state_; }

 private:
  Options options_;
  std::vector<at::Tensor> weights_;  // weights that decay come first
  size_t decayed_ = 0;               // how many decay
  std::vector<at::Tensor> momentum_;
  std::vector<Named> state_;
};

}  // namespace forebay::train
