// A dataset opened for reading: its current snapshot, and the chunks that the snapshot names (or
// data in place: store/in_place.h). Layout of the folder, files and their grammar: docs/format.md.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "base/checksum.h"
#include "io/file_system.h"
#include "store/chunk_index.h"

namespace forebay::store {

struct ChunkInfo {
  base::Sha256 id{};  // SHA-256 of its bytes, and its name; zeros in place
  uint64_t bytes = 0;
  uint64_t first_sample = 0;  // in the dataset
  uint32_t samples = 0;
  uint64_t index_bytes = 0;  // of `__forebay__`, which begins at byte 512
  uint64_t offset = 0;       // in its file: 0, but of a piece of a shard in place or in a view
};

// Where a sample's image lies, and its label.
struct Location {
  uint32_t chunk = 0;
  uint32_t length = 0;
  uint64_t offset = 0;                  // in the chunk's file
  std::optional<uint32_t> crc32c = {};  // unset: unknown
  int32_t label = -1;                   // class number; -1 when it has none
};

// Immutable once open: any thread may call anything. Samples are numbered from 0 in the order of
// the chunks and, inside a chunk, of its tar; chunks in the order of the snapshot's parts.
class Dataset {
 public:
  // Reads HEAD, the root and the fixed-width columns; keys and chunk indexes stay on the disk.
  // `fs` outlives the dataset.
  static Result<std::shared_ptr<const Dataset>> open(const io::FileSystem& fs,
                                                     const std::string& path);
  virtual ~Dataset() = default;

  virtual const std::string& path() const = 0;
  virtual const Schema& schema() const = 0;
  virtual uint64_t sample_count() const = 0;
  virtual uint32_t chunk_count() const = 0;
  virtual const ChunkInfo& chunk(uint32_t number) const = 0;
  virtual std::string chunk_path(uint32_t number) const = 0;
  // What the chunk is called wherever the data lies: its hash; in place a path below the data's
  // folder.
  virtual std::string chunk_name(uint32_t number) const { return base::to_hex(chunk(number).id); }
  // The chunk that holds sample `sample`, by the chunks' first samples.
  virtual uint32_t chunk_of(uint64_t sample) const = 0;
  // `sample` below sample_count().
  virtual Location location(uint64_t sample) const = 0;
  // Depends on the parts' content alone: equal datasets have equal fingerprints wherever they lie.
  virtual const base::Sha256& fingerprint() const = 0;

  // Read from the disk at each call. Errors: kIo, kCorrupt, kNotFound.
  virtual Result<std::string> key(uint64_t sample) const = 0;
  // Those of a chunk's samples, in order; much cheaper than one by one.
  virtual Result<std::vector<std::string>> chunk_keys(uint32_t chunk) const;
  virtual Result<std::optional<uint64_t>> find(std::string_view key) const = 0;
  // All samples with this key, ascending: a view may have several.
  virtual Result<std::vector<uint64_t>> find_all(std::string_view key) const;
  virtual Result<ChunkIndex> read_chunk_index(uint32_t chunk) const = 0;

  // Data in place; the rest of this is of such alone.
  virtual bool in_place() const { return false; }
  // What whoever opened it should be told: what is left out, an index that is out of date.
  virtual std::vector<std::string> notes() const { return {}; }
  // kCorrupt when `file`, which holds the chunk, is not what was listed, by its size and a shard's
  // time of change: where there are no checksums nothing else would tell.
  virtual Status check_unchanged(const io::FileSystem& /*fs*/, const io::RandomFile& /*file*/,
                                 uint32_t /*chunk*/) const {
    return {};
  }
};

// The chunk that holds `sample`, by the chunks' first samples.
uint32_t chunk_of(std::span<const ChunkInfo> chunks, uint64_t sample);
// kTooBig when it is longer than an image may be.
Status check_length(const Location& location);
// kCorrupt when `file` does not have the checksum that is known of it; and as check_length().
Status check_file(Bytes file, const Location& location);
// A sample's image as it is stored, checked. Errors: kIo, kCorrupt, kTooBig.
Status read_file_at(const io::FileSystem& fs, const Dataset& dataset, const Location& location,
                    base::ByteVector* file);

}  // namespace forebay::store
