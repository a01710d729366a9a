// What a snapshot says about a chunk, and about a sample's location in a chunk.
#pragma once

#include <optional>

#include "base/checksum.h"

namespace forebay::store {

struct ChunkInfo {
  // SHA-256 of the chunk's bytes, which is also the chunk's name; zeros for data in place.
  base::Sha256 id{};
  uint64_t bytes = 0;
  uint64_t first_sample = 0;  // in the dataset
  uint32_t samples = 0;
  uint64_t index_bytes = 0;  // the size of `__forebay__`, which begins at byte 512
  // Where the chunk begins in its file: 0, except for a piece of a shard in place and in a view.
  uint64_t offset = 0;
};

// The place of a sample's image, and its label.
struct Location {
  uint32_t chunk = 0;
  uint32_t length = 0;
  uint64_t offset = 0;                  // in the chunk's file
  std::optional<uint32_t> crc32c = {};  // empty if unknown
  int32_t label = -1;                   // class number; -1 if there is none
};

}  // namespace forebay::store
