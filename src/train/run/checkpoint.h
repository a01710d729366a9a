// Stores a training run on disk. A checkpoint is one safetensors file with the model and the
// momentum; its metadata say how far the run has come. A CRC32C covers the whole file.
#pragma once

#include <optional>

#include "feed/batch/state.h"
#include "train/model/weights.h"

namespace forebay::train {

// How far a run has come.
struct Progress {
  uint64_t step = 0;     // number of finished steps, over all epochs
  feed::FeedState feed;  // where the feed continues
  // Everything that the weights depend on: a flat JSON object of options and their values, made by
  // checkpoint_options() (stage_options.h).
  std::string options;
};

// Returns a checkpoint's bytes. Errors are those of encode_tensors().
Result<ByteVector> encode_checkpoint(const Progress& progress, const std::vector<Named>& tensors);
// Loads a checkpoint's tensors into `tensors`, and returns its progress. Errors: kCorrupt for a
// damaged file; kInvalid, naming each option that differs, when it was written with other options
// than `options`, except that these may have more epochs.
Result<Progress> decode_checkpoint(Bytes file, const std::string& options,
                                   const std::vector<Named>& tensors);

// Writes `directory`/checkpoint-<step>.safetensors atomically, then removes all but the newest two.
Status write_checkpoint(io::FileSystem& fs, const std::string& directory, const Progress& progress,
                        const std::vector<Named>& tensors);

struct Restored {
  Progress progress;
  std::string path;  // the checkpoint that was loaded
  // Newer checkpoints that are damaged, each with the reason.
  std::vector<std::string> damaged;
};

// Loads the newest undamaged checkpoint into `tensors`; the result is empty when the directory
// holds no checkpoint. Errors: kCorrupt when all checkpoints are damaged; kInvalid, naming each
// option that differs, when the checkpoint was written with other options than `options`.
Result<std::optional<Restored>> restore_checkpoint(const io::Origin& origin,
                                                   const std::string& directory,
                                                   const std::string& options,
                                                   const std::vector<Named>& tensors);

// Returns the paths of the checkpoints in `directory`, newest first; none if the directory does not
// exist.
Result<std::vector<std::string>> list_checkpoints(const io::Origin& origin,
                                                  const std::string& directory);

}  // namespace forebay::train
