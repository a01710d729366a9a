// Ranges that a server can send directly from files, without reading them first.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "io/scratch_files.h"

namespace forebay::io::serve {

struct HeldPiece {
  std::shared_ptr<const ScratchFile> file = {};
  uint64_t offset = 0;  // in the file
  uint64_t length = 0;
  // The bytes themselves, without a file, if they are so few that a copy costs less than another
  // system call.
  base::ByteVector bytes = {};
};

// A requested range.
struct HeldRange {
  std::vector<HeldPiece> pieces = {};  // one after the other
  uint32_t crc32c = 0;  // the checksum that its bytes must have; the receiver checks it
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
