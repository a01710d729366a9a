// Bytes that a server can send straight from files, without reading them first.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "io/scratch_files.h"

namespace forebay::io::serve {

struct HeldPiece {
  std::shared_ptr<const ScratchFile> file = {};
  uint64_t offset = 0;  // in that file
  uint64_t length = 0;
  // The bytes themselves, where they are few, so that a copy costs less than another call of the
  // system; there is no file then.
  base::ByteVector bytes = {};
};

// A range that was asked for.
struct HeldRange {
  std::vector<HeldPiece> pieces = {};  // one after the other
  uint32_t crc32c = 0;  // what its bytes must have; whoever receives them checks that
};

// How many bytes of the ranges are in memory.
inline uint64_t bytes_in_memory(const std::vector<HeldRange>& ranges) {
  uint64_t bytes = 0;
  for (const HeldRange& range : ranges) {
    for (const HeldPiece& piece : range.pieces) bytes += piece.bytes.size();
  }
  return bytes;
}

}  // namespace forebay::io::serve
