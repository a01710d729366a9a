// A training run from its first step, or from a checkpoint, to its end.
#pragma once

#include <atomic>
#include <functional>

#include "train/checkpoint.h"
#include "train/learner.h"
#include "train/log.h"

namespace forebay::train {

struct RunOptions {
  uint64_t epochs = 1;
  uint64_t global_batch = 1;  // the feed's
  // Folder of the checkpoints; empty: none are written.
  std::string out;
  bool resume = false;
  // Steps between checkpoints inside an epoch; 0: one at each epoch's end only.
  uint64_t checkpoint_steps = 0;
  uint64_t log_steps = 20;
  // Epochs between validations; the last epoch is always followed by one.
  uint64_t validation_epochs = 1;
  // Ends the run early once validation reaches it.
  std::optional<double> target_accuracy;
  // Options that the weights depend on (checkpoint.h).
  std::string fingerprint;
  // Set from a signal handler: a checkpoint is written and the run ends with kCancelled.
  const std::atomic<bool>* stop = nullptr;
  // Called once, when the first batch is there.
  std::function<Status()> on_first_batch;
};

struct Summary {
  uint64_t steps = 0;
  uint64_t epochs = 0;
  std::optional<EvalResult> validation;  // the last
  double seconds = 0;                    // of this process's part
  double wait_share = 0;                 // of it, waiting for the training feed
  bool reached_target = false;
  uint64_t bad_samples = 0;  // of both feeds
};

// `validation` may be null. Afterwards `out` also holds model.safetensors, the weights alone.
// Errors: kCancelled on `stop`; kBusy when another run holds `out`; kExists when `out` holds
// checkpoints and `resume` is false; what the feeds, the learner and the disk give.
Result<Summary> train(Learner& learner, const Model& model, feed::Feed& training,
                      feed::Feed* validation, io::FileSystem& fs, Log& log,
                      const RunOptions& options);

}  // namespace forebay::train
