// Many local steps between exchanges: DiLoCo (Douillard and others, arXiv 2311.08105) in its
// streaming form (arXiv 2501.18512). Every `steps` local steps the processes take the mean of how
// far each has moved its weights since the last exchange. An outer optimiser, SGD with Nesterov's
// momentum, applies the mean to a shared model. The model is cut into fragments, which are
// exchanged in turn, so that the link is used evenly. The training continues while a fragment is
// summed.
#pragma once

#include <functional>
#include <vector>

#include "train/sync/strategy.h"

namespace forebay::train {

// An outer optimiser: changes a range of the shared weights, which begins at `begin`, by the mean
// of how far all processes have moved them, with the sign of a gradient. It makes the same changes
// in all processes.
using OuterStep =
    std::function<void(std::span<float> shared, std::span<float> moved, uint64_t begin)>;

class LocalSteps final : public Strategy {
 public:
  struct Options {
    uint32_t processes = 1;
    uint64_t floats = 0;     // the size of the model
    uint64_t steps = 100;    // between two exchanges of the same fragment
    uint64_t fragments = 1;  // at most `steps`
    uint64_t delay = 0;      // how many local steps a sum may take; below steps / fragments
    double outer_rate = 0.7;
    double outer_momentum = 0.9;
    // Whether the processes begin with different weights. Then the first exchange of each fragment
    // takes the mean of the weights, and the outer optimiser begins with the second exchange.
    bool begins_apart = false;
    // How the numbers are sent: kFloat32 or kInt8. What rounding leaves out is part of the next
    // exchange of the same fragment (error feedback). Means of weights are always float32.
    Encoding encoding = Encoding::kFloat32;
    OuterStep outer = {};  // takes the place of SGD with Nesterov's momentum
  };
  // `weights` are the initial weights, the same in all processes unless begins_apart is set.
  LocalSteps(const Options& options, std::span<const float> weights);

  bool must_wait() const override { return is_due() && !is_summed_; }
  Status before_update(std::span<float> gradient) override;
  bool wants_weights() const override { return is_due() || starts_next(); }
  void after_update(std::span<float> weights) override;
  Status lost(uint32_t /*peer*/) override { return {}; }
  std::span<float> next_reduction() override;
  std::span<float> left_out() override;
  void reduced() override { is_summed_ = true; }
  void settle(std::span<float> weights) override {
    if (state_ == State::kInSum && is_summed_) apply(weights);
  }
  // An exchange in flight is not kept: the fragment's next exchange makes up for it.
  std::vector<Kept> kept() override {
    const Range all = {.begin = 0, .count = shared_.size()};
    std::vector<Kept> kept = {{"shared", shared_, all}};
    if (!options_.outer) kept.push_back({"outer_momentum", momentum_, all});
    return kept;
  }
  std::span<const float> shared_weights() const override {
    return takes_mean() ? std::span<const float>() : shared_;
  }

 private:
  enum class State { kIdle, kReady, kInSum };

  // The fragment that is exchanged next or now.
  Range fragment() const;
  bool takes_mean() const { return options_.begins_apart && exchanges_ < options_.fragments; }
  // Whether the fragment in flight must be applied after the present step.
  bool is_due() const {
    return state_ != State::kIdle && step_ + 1 > started_step_ + options_.delay;
  }
  // Whether the exchange of a fragment starts after the present step, unless one is in flight.
  bool starts_next() const { return (step_ + 1) % (options_.steps / options_.fragments) == 0; }
  void start(std::span<const float> weights);
  void step_outer(Range range);
  void apply(std::span<float> weights);

  const Options options_;
  uint64_t step_ = 0;
  uint64_t exchanges_ = 0;  // exchanges that were applied
  State state_ = State::kIdle;
  bool is_summed_ = false;
  uint64_t started_step_ = 0;
  std::vector<float> shared_;    // the model that all processes share
  std::vector<float> momentum_;  // of SGD as the outer optimiser
  std::vector<float> started_;   // the weights at the start of their fragment's last exchange
  // First (shared_ - started_) / processes, later the sum of this over all processes. In an
  // exchange that takes the mean of all weights, shared_ counts as zero.
  std::vector<float> moved_;
  std::vector<float> left_out_;  // of the last sum of each fragment; empty with kFloat32
};

}  // namespace forebay::train
