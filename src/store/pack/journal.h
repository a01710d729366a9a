// How far a pack has come, on the disk: the dataset's folder holds `journal` and `listing` until
// the snapshot is committed. A line of the journal is eight hexadecimal digits (CRC32C of the
// rest), a space and a JSON object. The first line says what is packed; each finished chunk adds
// one, after the chunk is safe. A line whose checksum does not match, and all lines after it, do
// not count.
#pragma once

#include "base/mutex.h"
#include "io/file_system.h"
#include "store/pack/report.h"

namespace forebay::store {

struct ChunkRecord {
  uint64_t number = 0;  // the chunk's number in the plan
  base::Sha256 id{};
  uint64_t bytes = 0;  // 0 where every sample was refused, so that there is no chunk
  uint64_t index_bytes = 0;
  PackStats stats;
};

class Journal {
 public:
  struct Content {
    PackIdentity identity;
    std::vector<ChunkRecord> records;
    uint64_t good_bytes = 0;  // length of the lines whose checksums match
  };

  // Reads a dataset's journal; kNotFound when there is none.
  static Result<Content> read(const io::Origin& origin, const std::string& dataset);
  // Writes the listing, then the journal's first line; both are safe when this returns.
  static Status begin(io::FileSystem& fs, const std::string& dataset, Bytes listing,
                      const PackIdentity& identity);
  // Opens the journal for more records after `good_bytes`.
  static Result<std::unique_ptr<Journal>> open(io::FileSystem& fs, const std::string& dataset,
                                               uint64_t good_bytes);
  // Removes the journal first and the listing after it.
  static Status remove(io::FileSystem& fs, const std::string& dataset);

  // The record is safe on the disk when this returns ok. Any thread may call this; after an error
  // every call fails.
  Status append(const ChunkRecord& record) EXCLUDES(mutex_);

 private:
  explicit Journal(std::unique_ptr<io::WritableFile> file) : file_(std::move(file)) {}

  base::Mutex mutex_;
  std::unique_ptr<io::WritableFile> file_ GUARDED_BY(mutex_);
  Status error_ GUARDED_BY(mutex_);
};

std::string journal_path(const std::string& dataset);
std::string listing_path(const std::string& dataset);

}  // namespace forebay::store
