// A part of a snapshot, opened for reading: its chunk table in memory, the columns of its samples
// in memory as far as they are known, its keys where they lie.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/origin.h"
#include "store/format/snapshot.h"
#include "store/sample_columns.h"

namespace forebay::store {

// Where parts come from, and how much of them is read at once.
struct PartOptions {
  // Bytes that are read over a network are kept here; null: nowhere.
  const io::KeptFiles* kept = nullptr;
  // Whether the samples' columns are read at open.
  bool reads_samples = true;
};

// Any thread may call anything.
class Part {
 public:
  // Reads and checks the header and the chunk table. Errors: kIo, kNotFound, kCorrupt.
  static Result<std::unique_ptr<Part>> open(const io::Origin& origin, const std::string& path,
                                            const PartRef& ref, const PartOptions& options = {});

  uint32_t samples() const { return header_.samples; }
  // The chunks; their first_sample counts from the part's first sample.
  const std::vector<ChunkInfo>& chunks() const { return chunks_; }
  // Where the part's samples lie, as far as that is known.
  SampleColumns& columns() const { return *columns_; }
  // Reads two to four blocks from the disk.
  Result<std::string> key(uint32_t sample, const io::ReadOptions& options = {}) const;
  // The keys of samples [begin, end). Each block is read once.
  Result<std::vector<std::string>> keys(uint32_t begin, uint32_t end) const;
  // Reads every key of the part, block by block, which takes some 30 ms for a million. Only people
  // and tests look keys up; an index sorted by key would cost something at every open and every
  // commit.
  Result<std::optional<uint32_t>> find(std::string_view key) const;

 private:
  Part() = default;
  Status decode_head(Bytes head, const PartRef& ref);
  Status decode_chunks(Bytes head);
  Result<base::ByteVector> read_range(PartColumn which, uint64_t begin, uint64_t end,
                                      const io::ReadOptions& options = {}) const;
  Result<std::vector<uint32_t>> key_offsets(uint32_t begin, uint32_t end,
                                            const io::ReadOptions& options = {}) const;

  std::unique_ptr<io::ReadableFile> file_;
  bool is_remote_ = false;
  PartHeader header_;
  std::vector<ChunkInfo> chunks_;
  std::unique_ptr<SampleColumns> columns_;
};

}  // namespace forebay::store
