// How far a feed has come in an epoch, and this state's form as JSON text, which a checkpoint
// stores.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace forebay::feed {

using base::Result;
using base::Status;

// A sample that could not be used, because it is damaged, for example.
struct BadSample {
  uint64_t sample = 0;
  std::string chunk;  // its name (store::Dataset::chunk_name)
  std::string key;
  std::string reason;
  bool operator==(const BadSample&) const = default;
};

// Positions of an epoch from `begin` to before `end`.
struct Positions {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool operator==(const Positions&) const = default;
};

// All that is needed to continue in the middle of an epoch, at any world size.
struct FeedState {
  uint64_t epoch = 0;
  // How many samples of the epoch all ranks have consumed: the position at which a step begins, or
  // the epoch's end.
  uint64_t position = 0;
  // Samples at this rank's positions that could not be used, each once, in the order of the batches
  // that had them.
  std::vector<BadSample> bad = {};
  // The positions of steps after `position` that were consumed before their turn
  // (feed/batch/steps_over.h). The ranges ascend, with gaps between them.
  std::vector<Positions> over = {};

  bool operator==(const FeedState&) const = default;
};

// Returns {"epoch": …, "position": …, "bad": [{"sample": …, "chunk": …, "key": …, "reason": …},
// …]}, and "over": [[begin, end], …] unless `over` is empty.
std::string encode_state(const FeedState& state);
// Errors: kCorrupt when encode_state() cannot have written the text.
Result<FeedState> decode_state(std::string_view text);

}  // namespace forebay::feed
