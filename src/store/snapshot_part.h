// A part of a snapshot, opened for reading. Its chunk table is in memory, and so are the loaded
// rows of its samples' columns; its keys are read from the file when they are needed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/origin.h"
#include "store/format/snapshot.h"
#include "store/sample_columns.h"

namespace forebay::store {

struct PartOptions {
  // Keeps bytes that are read over a network on this machine; null: nothing is kept.
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
  // The locations of the part's samples, as far as they are loaded.
  SampleColumns& columns() const { return *columns_; }
  // Reads two to four blocks from the disk.
  Result<std::string> key(uint32_t sample, const io::ReadOptions& options = {}) const;
  // The keys of samples [begin, end). Each block is read once.
  Result<std::vector<std::string>> keys(uint32_t begin, uint32_t end) const;
  // Reads every key of the part, block by block, which takes some 30 ms for a million keys. Only
  // users and tests look keys up, while a sorted index would add a cost to every open and commit.
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
