// Stores a training run on disk: one safetensors file holds the model and the momentum, and its
// metadata says as JSON how far the run is. A CRC32C covers the whole file.
#pragma once

#include <optional>

#include "feed/batch/state.h"
#include "train/model/weights.h"

namespace forebay::train {

// How far a run is.
struct Progress {
  uint64_t step = 0;     // number of finished steps, over all epochs
  feed::FeedState feed;  // where the feed goes on
  // Everything that the weights depend on: a flat JSON object of options and their values, which
  // checkpoint_options() (stage_options.h) makes.
  std::string options;
};

// A checkpoint's file, and what decode_checkpoint() makes of it. Errors: kCorrupt for a file that
// is damaged; kInvalid, naming each option that differs, when it is of other options than
// `options`.
Result<ByteVector> encode_checkpoint(const Progress& progress, const std::vector<Named>& tensors);
Result<Progress> decode_checkpoint(Bytes file, const std::string& options,
                                   const std::vector<Named>& tensors);

// Writes `directory`/checkpoint-<step>.safetensors atomically, then removes all but the newest two.
Status write_checkpoint(io::FileSystem& fs, const std::string& directory, const Progress& progress,
                        const std::vector<Named>& tensors);

struct Restored {
  Progress progress;
  std::string path;
  // Newer checkpoints that could not be used, each with the reason.
  std::vector<std::string> damaged;
};

// Loads the newest undamaged checkpoint into `tensors`; the result is empty when the directory
// holds no checkpoint. Errors: kCorrupt when all of them are damaged; kInvalid, naming each option
// that differs, when the checkpoint was written with other options than `options`.
Result<std::optional<Restored>> restore_checkpoint(const io::Origin& origin,
                                                   const std::string& directory,
                                                   const std::string& options,
                                                   const std::vector<Named>& tensors);

// Gives the paths of the checkpoints in `directory`, newest first; none when there is no such
// directory.
Result<std::vector<std::string>> list_checkpoints(const io::Origin& origin,
                                                  const std::string& directory);

}  // namespace forebay::train
