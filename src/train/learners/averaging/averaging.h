// How several learners on one device become one model: each learner trains its own weights on its
// own batches, and an averaging strategy keeps a central model, which is validated and stored. It
// works on flat lists of float32 numbers and has no threads. sma.h, mean_gradient.h and local_sgd.h
// implement it.
//
// One step, with a barrier between two lines:
//   all gradients       each learner computes its gradient
//   begin_step          one call
//   before_update       for ranges that together are the whole model, in any threads
//   all updates         each learner's optimiser updates its weights
//   after_update        for the same or other ranges, in any threads
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "train/sync/strategy.h"  // Range

namespace forebay::train {

using base::Result;
using base::Status;

// The numbers of one learner. The lists have the same order for all learners.
struct LearnerNumbers {
  std::span<float> weights;
  std::span<float> gradient = {};  // only MeanGradient reads it; otherwise it may be empty
  uint64_t samples = 0;            // how many samples the gradient is the mean of
};

struct AveragingOptions {
  std::string kind = "sma";  // "sma" (Sma), "sgd" (MeanGradient) or "local" (LocalSgd)
  uint32_t learners = 1;     // from 1 to base::kLearnersMax
  uint64_t steps = 1;        // steps from one averaging to the next, above 0; 1 for "sgd"
  double rate = 0;           // only for "sma": α; 0 means sma_rate()
  double momentum = 0.9;     // only for "sma": μ, from 0 to below 1
};

// Numbers that a checkpoint stores in addition to the learners'.
struct KeptNumbers {
  std::string name;
  std::span<float> floats;
};

// A range's results do not depend on the threads or on the other ranges: each number is computed
// from the learners' numbers at its position, in the learners' order. Different threads may call
// before_update(), after_update(), settle() and restart() at the same time for disjoint ranges;
// everything else is called by one thread, while no other call runs.
class Averaging {
 public:
  virtual ~Averaging() = default;
  Averaging(const Averaging&) = delete;
  Averaging& operator=(const Averaging&) = delete;

  uint32_t learners() const { return options_.learners; }
  // The central model's weights. Call settle() before you read them.
  std::span<float> central() { return central_; }

  // Begins a step with this learning rate, 0 or above.
  void begin_step(double rate);
  // Whether this step averages. If not, before_update() and after_update() do nothing.
  bool is_due() const { return is_due_; }

  virtual void before_update(std::span<const LearnerNumbers> /*learners*/, Range /*range*/) {}
  virtual void after_update(std::span<const LearnerNumbers> /*learners*/, Range /*range*/) {}
  // Brings central() up to date with steps that did not average. Changes no learner, and has no
  // influence on later steps.
  virtual void settle(std::span<const LearnerNumbers> /*learners*/, Range /*range*/) {}
  // Copies the central model to all learners, which forget how they differed.
  virtual void restart(std::span<const LearnerNumbers> learners, Range range);

  // Changes the number of learners, between two steps. Afterwards restart() must be called with all
  // learners, of which each new one begins with the central model. Errors, which change nothing:
  // those of make_averaging(); kNoMemory.
  virtual Status resize(uint32_t learners);

  // What a checkpoint stores. A restored run writes it here before its first step.
  virtual std::vector<KeptNumbers> kept() {
    return {{"central", central_}, {"progress", progress_}};
  }

 protected:
  Averaging(AveragingOptions options, std::span<const float> weights)
      : options_(std::move(options)), central_(weights.begin(), weights.end()) {}

  const AveragingOptions& options() const { return options_; }
  // Whether all learners begin anew from the central model at the end of this step.
  bool restarts() const { return restarts_; }
  // Stops the program if the arguments do not fit the model.
  void check(std::span<const LearnerNumbers> learners, Range range) const;

 private:
  AveragingOptions options_;
  std::vector<float> central_;
  // Steps since the last averaging, and the highest learning rate since the last restart. They are
  // floats because a checkpoint stores floats.
  std::array<float, 2> progress_ = {};
  bool is_due_ = false;
  bool restarts_ = false;
};

// Makes the strategy that options.kind says, for learners that all begin with `weights`. Errors:
// kInvalid, naming the option, for values out of range and for an unstable rate; kNoMemory.
Result<std::unique_ptr<Averaging>> make_averaging(const AveragingOptions& options,
                                                  std::span<const float> weights);

// Checks what make_averaging() would refuse. Messages name the options of `forebay train`.
Status check_averaging(const AveragingOptions& options);

}  // namespace forebay::train
