// Snapshots: which chunks a dataset consists of, and where every sample's image lies. A small root
// file names immutable parts; HEAD names the root. This is a pure codec: store/dataset.h reads
// snapshots, store/snapshot_builder.h writes them. Grammar: docs/format.md, "snapshot".
#pragma once

#include <array>
#include <vector>

#include "base/status.h"
#include "store/format/chunk.h"
#include "store/format/schema.h"

namespace forebay::store {

using base::Bytes;
using base::Result;
using base::Status;

// Columns are checksummed in blocks of this many bytes.
inline constexpr uint64_t kPartBlockBytes = 256 << 10;

// The columns of a part, in the order of the file. The values are stored, so they never change.
enum class PartColumn : uint8_t {
  kChunkId,          // 32 bytes a chunk
  kChunkBytes,       // u64 a chunk
  kChunkIndexBytes,  // u64 a chunk
  kChunkSamples,     // u32 a chunk
  kOffset,           // u32 a sample, or u64 if a chunk of the part has 4 GiB or more
  kLength,           // u32 a sample
  kCrc32c,           // u32 a sample
  kLabel,            // i32 a sample
  kKeyOffset,        // u32 a sample, where its key begins in kKeys; one more, where the last ends
  kKeys,             // the keys, one after the other
};
inline constexpr size_t kPartColumns = 10;
// When a local dataset is opened, all columns before this one are read.
inline constexpr PartColumn kFirstLazyColumn = PartColumn::kKeyOffset;

struct PartHeader {
  struct Column {
    uint64_t offset = 0;  // in the file, a multiple of 64
    uint64_t bytes = 0;
    uint32_t first_block = 0;  // the number in block_crc32c of its first block
  };
  uint32_t header_bytes = 0;
  uint32_t chunks = 0;
  uint32_t samples = 0;
  uint32_t offset_bytes = 4;  // bytes of a value of kOffset: 4 or 8
  uint64_t file_bytes = 0;
  std::array<Column, kPartColumns> columns{};
  std::vector<uint32_t> block_crc32c{};

  const Column& column(PartColumn which) const { return columns[static_cast<size_t>(which)]; }
};

// The first bytes of a part, enough to know how long its header is.
inline constexpr size_t kPartPreambleBytes = 16;
Result<uint32_t> decode_part_preamble(Bytes preamble);
// `header` is exactly the part's first header_bytes. All its values are checked: columns lie in
// order, without overlap, inside file_bytes, and their sizes follow from the counts.
Result<PartHeader> decode_part_header(Bytes header);
// Compares whole blocks of a column with the checksums in the header. `blocks` begins at byte
// `first_byte` of the column, and ends where a block or the column ends. Errors: kCorrupt.
Status check_blocks(const PartHeader& header, PartColumn which, uint64_t first_byte, Bytes blocks);

// A root's entry for a part.
struct PartRef {
  base::Sha256 id{};      // SHA-256 of its bytes, and its name
  base::Sha256 header{};  // SHA-256 of its first header_bytes, compared at each open
  uint32_t header_bytes = 0;
  uint32_t chunks = 0;
  uint32_t samples = 0;
  uint64_t bytes = 0;
  bool operator==(const PartRef&) const = default;
};

// Returns the size of a part's header and chunk table, with which its file begins.
uint64_t part_head_bytes(const PartRef& ref);

struct SnapshotRoot {
  Schema schema;
  std::vector<PartRef> parts;
  bool operator==(const SnapshotRoot&) const = default;
};

base::ByteVector encode_root(const SnapshotRoot& root);
Result<SnapshotRoot> decode_root(Bytes data);

std::string encode_head(const base::Sha256& root);
Result<base::Sha256> decode_head(std::string_view text);

// Return the paths of the files in a dataset's folder.
std::string head_path(const std::string& dataset);
std::string chunk_path(const std::string& dataset, const base::Sha256& id);
std::string part_path(const std::string& dataset, const base::Sha256& id);
std::string root_path(const std::string& dataset, const base::Sha256& id);
// The file that marks a copy which is not complete.
std::string copy_mark_path(const std::string& dataset);

// Collects the columns of one part and encodes them.
class PartBuilder {
 public:
  uint32_t samples() const { return static_cast<uint32_t>(length_.size()); }
  void add_chunk(const base::Sha256& id, uint64_t bytes, uint64_t index_bytes);
  // Adds a sample of the chunk that was added last. location.crc32c must be set.
  void add_sample(const Location& location, std::string_view key);
  struct Encoded {
    PartRef ref;
    base::ByteVector data;
  };
  Encoded encode() const;

 private:
  std::array<base::ByteVector, kPartColumns> encode_columns() const;

  std::vector<base::Sha256> chunk_id_;
  std::vector<uint64_t> chunk_bytes_;
  std::vector<uint64_t> chunk_index_bytes_;
  std::vector<uint32_t> chunk_samples_;
  std::vector<uint64_t> offset_;
  std::vector<uint32_t> length_;
  std::vector<uint32_t> crc32c_;
  std::vector<int32_t> label_;
  std::vector<uint32_t> key_offset_;
  base::ByteVector keys_;
};

}  // namespace forebay::store
