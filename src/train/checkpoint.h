// A training run on disk: one safetensors file with the model, the momentum and, as JSON in the
// metadata, where the run stands. The whole file lies under a CRC32C.
#pragma once

#include <optional>

#include "feed/feed.h"
#include "train/weights.h"

namespace forebay::train {

// Where a run stands.
struct Progress {
  uint64_t step = 0;     // steps done over all epochs
  feed::FeedState feed;  // the batch that comes next
  // What the weights depend on, as a flat JSON object of option to value.
  std::string options;
};

// Writes `directory`/checkpoint-<step>.safetensors atomically, then removes all but the newest two.
Status write_checkpoint(io::FileSystem& fs, const std::string& directory, const Progress& progress,
                        const std::vector<Named>& tensors);

struct Restored {
  Progress progress;
  std::string path;
  // Newer checkpoints that could not be used, and why.
  std::vector<std::string> damaged;
};

// Loads the newest checkpoint that is whole into `tensors`; empty when the directory holds none.
// Errors: kCorrupt when there are some and none is whole; kInvalid, naming each, when options
// differ from `options`.
Result<std::optional<Restored>> restore_checkpoint(const io::FileSystem& fs,
                                                   const std::string& directory,
                                                   const std::string& options,
                                                   const std::vector<Named>& tensors);

// The checkpoints in `directory`, newest first; none when the directory is not there.
Result<std::vector<std::string>> list_checkpoints(const io::FileSystem& fs,
                                                  const std::string& directory);

}  // namespace forebay::train
