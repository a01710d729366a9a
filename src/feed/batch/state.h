// Where an epoch stands, and its form as JSON text, which a checkpoint stores.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace forebay::feed {

using base::Result;
using base::Status;

// A sample that could not be used at run time.
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

// All that is needed to go on in the middle of an epoch, at any world size.
struct FeedState {
  uint64_t epoch = 0;
  // Samples of the epoch consumed over all ranks: where a step begins, or the epoch's end.
  uint64_t position = 0;
  // Samples at this rank's positions that could not be used, each once, in the order of the batches
  // that had them.
  std::vector<BadSample> bad = {};
  // Steps after `position` that were consumed before their turn, as the positions that they take
  // (feed/batch/steps_over.h). Ascending and apart from each other.
  std::vector<Positions> over = {};

  bool operator==(const FeedState&) const = default;
};

// {"epoch": …, "position": …, "bad": [{"sample": …, "chunk": …, "key": …, "reason": …}, …]}, and
// where there are such steps, "over": [[begin, end], …].
std::string encode_state(const FeedState& state);
// Errors: kCorrupt when the text is not what encode_state() gives.
Result<FeedState> decode_state(std::string_view text);

}  // namespace forebay::feed
