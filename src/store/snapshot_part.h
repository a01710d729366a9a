// An open part of a snapshot: its fixed-width columns are in memory, its keys on the disk.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/origin.h"
#include "store/format/snapshot.h"

namespace forebay::store {

// Immutable once open: any thread may call anything.
class Part {
 public:
  // Reads and checks the header and the fixed-width columns. Errors: kIo, kNotFound, kCorrupt.
  static Result<Part> open(const io::Origin& origin, const std::string& path, const PartRef& ref);

  uint32_t samples() const { return header_.samples; }
  // The chunks; their first_sample counts from the part's first sample.
  const std::vector<ChunkInfo>& chunks() const { return chunks_; }
  // Where the part's sample `sample` lies; Location::chunk is left 0.
  Location location(uint32_t sample) const;
  // Reads two to four blocks from the disk.
  Result<std::string> key(uint32_t sample) const;
  // The keys of samples [begin, end). Each block is read once.
  Result<std::vector<std::string>> keys(uint32_t begin, uint32_t end) const;
  // Reads every key of the part, block by block, which takes some 30 ms for a million. Only people
  // and tests look keys up; an index sorted by key would cost something at every open and every
  // commit.
  Result<std::optional<uint32_t>> find(std::string_view key) const;

 private:
  Part() = default;
  Status read_columns();
  Status decode_chunks();
  Status check_locations() const;
  const uint8_t* value(PartColumn column, uint64_t at) const;
  Status check_blocks(PartColumn which, uint64_t first_byte, Bytes blocks) const;
  Result<base::ByteVector> read_range(PartColumn which, uint64_t begin, uint64_t end) const;
  Result<std::vector<uint32_t>> key_offsets(uint32_t begin, uint32_t end) const;

  std::unique_ptr<io::ReadableFile> file_;
  PartHeader header_;
  // The file's bytes from the first column to the last one that is read at open.
  base::ByteVector columns_;
  std::vector<ChunkInfo> chunks_;
};

}  // namespace forebay::store
