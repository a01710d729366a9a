// A training run from its first step, or from a checkpoint, to its end.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "io/energy.h"
#include "prep/host/prep_options.h"
#include "train/learner/learner.h"
#include "train/run/checkpoint.h"
#include "train/run/log.h"
#include "train/run/replicas.h"

namespace forebay::train {

struct RunOptions {
  uint64_t epochs = 1;
  uint64_t global_batch = 1;  // the same as the training feed's
  // The folder of the checkpoints; empty for no checkpoints.
  std::string out;
  bool resume = false;
  // Steps between checkpoints within an epoch; 0 means one checkpoint after each epoch only.
  uint64_t checkpoint_steps = 0;
  uint64_t log_steps = 20;  // steps between progress lines; above 0
  // The prices of the training data's object store, for the cost in progress lines; 0 for no cost.
  feed::Price price;
  // Epochs between validations, above 0. One always follows the last epoch.
  uint64_t validation_epochs = 1;
  // Whether the next batch is taken from the feed while the present one is learned: for a GPU.
  bool takes_ahead = false;
  // The accuracy, from 0 to 1, at which a validation ends the run early.
  std::optional<double> target_accuracy;
  // The options that the weights depend on, for Progress::options (checkpoint.h).
  std::string fingerprint;
  // Returns the figures of the prep servers; empty if none help.
  std::function<prep::PrepStats()> prep_stats;
  // The processes that train the same model. All read checkpoints from `out`; only rank 0 validates
  // and writes there.
  std::shared_ptr<Replicas> replicas = std::make_shared<LoneProcess>();
  // Whether rank 0 validates, while the other processes wait.
  bool is_measured = false;
  // Set by a signal handler: then the run writes a checkpoint and ends with kCancelled. May be
  // null.
  const std::atomic<bool>* stop = nullptr;
  // Called once, when the first batch has arrived.
  std::function<Status()> on_first_batch;
};

struct Summary {
  uint64_t steps = 0;
  uint64_t epochs = 0;
  std::optional<EvalResult> validation;  // the last result
  double seconds = 0;                    // the duration in this process
  double wait_share = 0;                 // share of `seconds` spent waiting for the training feed
  io::EnergyMeter::Used energy = {};
  bool reached_target = false;
  uint64_t bad_samples = 0;  // in both feeds
};

// Runs all epochs; `validation` may be null. Afterwards `out` also holds model.safetensors with the
// weights alone, and best.safetensors with those that were the most accurate in a validation.
// Errors: kCancelled on `stop`; kBusy when another run holds `out`; kExists when `out` holds
// checkpoints and `resume` is false; errors of the feeds, the learner and the disk.
Result<Summary> train(Learner& learner, feed::Feed& training, feed::Feed* validation,
                      io::FileSystem& fs, Log& log, const RunOptions& options);

}  // namespace forebay::train
