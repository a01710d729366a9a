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
  // The folder of the checkpoints. When it is empty, none are written.
  std::string out;
  bool resume = false;
  // Steps between checkpoints inside an epoch. With 0 there is only one at each epoch's end.
  uint64_t checkpoint_steps = 0;
  uint64_t log_steps = 20;  // steps between progress lines; above 0
  // What the training data's store takes; then progress lines say what was spent. Nothing at 0.
  feed::Price price;
  // Epochs between validations, above 0. One always follows the last epoch.
  uint64_t validation_epochs = 1;
  // Whether a batch is taken while the one before it is learned, which is for a model on a GPU.
  bool takes_ahead = false;
  // The accuracy, from 0 to 1, at which a validation ends the run early.
  std::optional<double> target_accuracy;
  // The options that the weights depend on, for Progress::options (checkpoint.h).
  std::string fingerprint;
  // What prep servers do; empty where none help.
  std::function<prep::PrepStats()> prep_stats;
  // The processes that train the same model. Rank 0 alone measures and writes to `out`, and all
  // read it.
  std::shared_ptr<Replicas> replicas = std::make_shared<LoneProcess>();
  // Whether rank 0 measures, while the others wait for it.
  bool is_measured = false;
  // A signal handler sets it; then a checkpoint is written and the run ends with kCancelled.
  const std::atomic<bool>* stop = nullptr;
  // Called once, when the first batch has arrived.
  std::function<Status()> on_first_batch;
};

struct Summary {
  uint64_t steps = 0;
  uint64_t epochs = 0;
  std::optional<EvalResult> validation;  // the last result
  double seconds = 0;                    // that this process took
  double wait_share = 0;                 // share of `seconds` spent waiting for the training feed
  io::EnergyMeter::Used energy = {};
  bool reached_target = false;
  uint64_t bad_samples = 0;  // in both feeds
};

// Runs all epochs; `validation` may be null. Afterwards `out` also holds model.safetensors with the
// weights alone. Errors: kCancelled on `stop`; kBusy when another run holds `out`; kExists when
// `out` holds checkpoints and `resume` is false; errors of the feeds, the learner and the disk.
Result<Summary> train(Learner& learner, feed::Feed& training, feed::Feed* validation,
                      io::FileSystem& fs, Log& log, const RunOptions& options);

}  // namespace forebay::train
