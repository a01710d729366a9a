// The progress of a pack: the folder journal/ of the dataset, until the snapshot is committed. The
// file `identity` says what is packed, and `<hash>.listing` is the listing of the source that the
// identity names. The files `1`, `2`, … hold records, one for each finished chunk; a chunk is
// stored before its record is. Each file is put as a whole, also when a run replaces it to add
// records. A line of these files is eight hexadecimal digits (CRC32C of the rest), a space and a
// JSON object. A line whose checksum does not match is ignored, and so are all lines after it in
// its file.
#pragma once

#include "base/mutex.h"
#include "io/file_system.h"
#include "store/pack/report.h"

namespace forebay::store {

struct ChunkRecord {
  uint64_t number = 0;  // the chunk's number in the plan
  base::Sha256 id{};
  uint64_t bytes = 0;  // 0 if every sample was refused, so that there is no chunk
  uint64_t index_bytes = 0;
  PackStats stats;
};

class Journal {
 public:
  struct Content {
    PackIdentity identity;
    std::vector<ChunkRecord> records;
    uint64_t next_file = 1;  // one more than the largest number of a file of records
  };

  // Whether the folder has an unfinished pack; kUnsupported if an earlier version of Forebay began
  // it.
  static Result<bool> exists(const io::Origin& origin, const std::string& dataset);
  // Reads a dataset's journal; kNotFound if there is none.
  static Result<Content> read(const io::Origin& origin, const std::string& dataset);
  // Puts the listing, and then the identity; both are stored durably when this returns. kExists if
  // another pack began there first.
  static Status begin(io::FileSystem& fs, const std::string& dataset, Bytes listing,
                      const PackIdentity& identity);
  // Removes a journal, or the rest of one: the identity first, then all other files.
  static Status remove(io::FileSystem& fs, const std::string& dataset);
  // Whether a file of this name may exist in journal/ before the identity does.
  static bool is_early(std::string_view name);

  // Adds records in new files from number `next_file` on. `fs` outlives the journal.
  Journal(io::FileSystem& fs, const std::string& dataset, uint64_t next_file);

  // Adds a record, which is stored durably when this returns ok. Any thread may call this; after an
  // error every call fails. Records that arrive while others are written are written together.
  Status append(const ChunkRecord& record) EXCLUDES(mutex_);

 private:
  void write_lines() REQUIRES(mutex_);
  Result<uint64_t> put(const std::string& lines, uint64_t number, bool is_new);
  Result<uint64_t> put_file(const std::string& lines, uint64_t number, bool is_new);

  io::FileSystem& fs_;
  const std::string folder_;
  base::Mutex mutex_;
  base::CondVar written_more_;
  bool writing_ GUARDED_BY(mutex_) = false;
  std::string lines_ GUARDED_BY(mutex_);  // content of the current file, written or to be written
  uint64_t file_ GUARDED_BY(mutex_);      // number of the current file
  bool file_is_new_ GUARDED_BY(mutex_) = true;
  uint64_t appended_ GUARDED_BY(mutex_) = 0;  // records
  uint64_t written_ GUARDED_BY(mutex_) = 0;
  Status error_ GUARDED_BY(mutex_);
};

std::string journal_path(const std::string& dataset);
std::string listing_path(const std::string& dataset, const PackIdentity& identity);

}  // namespace forebay::store
