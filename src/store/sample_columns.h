// The columns of a snapshot's part that have a value for each sample: the locations of the samples'
// images, and their labels. From a local disk all columns are read at once. Over a network they are
// read when they are needed, in rows of 65,536 samples. A chunk's own index has the same values, so
// a chunk whose index was read needs no rows (docs/decisions/0014-metadata-of-remote-data.md).
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "io/kept_files.h"
#include "io/origin.h"
#include "io/per_process.h"
#include "store/format/snapshot.h"

namespace forebay::store {

// Chunks and samples are numbered within the part. Any thread may call anything once read_all() has
// returned. So may a forked process: it reads again the rows that its parent was reading.
class SampleColumns {
 public:
  // Where the columns are read from; the references outlive this object. The chunks' first_sample
  // counts from the part's first sample.
  struct Source {
    const PartHeader& header;
    std::span<const ChunkInfo> chunks;
    const io::ReadableFile& file;
    base::Sha256 id{};  // the part's
    const io::KeptFiles* kept = nullptr;
  };

  // Loads nothing yet.
  explicit SampleColumns(const Source& source);

  // Loads everything in one read. Errors: those of reading, kCorrupt.
  Status read_all();
  // Loads the samples of these chunks. If other threads are reading some of them, waits for these
  // threads. Errors: those of read_all(); kCancelled and kTimedOut by the options.
  Status load(std::span<const uint32_t> chunks, const io::ReadOptions& options);
  // Takes the values of a chunk's samples from the chunk's index, unless they are loaded. Ignores
  // values that are impossible.
  void learn(uint32_t chunk, std::span<const Location> locations);

  // Whether location() may be called for the chunk's samples. Once true, it stays true.
  bool knows(uint32_t chunk) const {
    return knows_all_ || known_[chunk].load(std::memory_order_acquire);
  }
  // Where the sample lies; Location::chunk is left 0. Called for every sample at open.
  Location location(uint32_t sample) const {
    const uint64_t i = sample;
    return {.chunk = 0,
            .length = base::load_le<uint32_t>(length_ + 4 * i),
            .offset = is_wide_ ? base::load_le<uint64_t>(offset_ + 8 * i)
                               : base::load_le<uint32_t>(offset_ + 4 * i),
            .crc32c = base::load_le<uint32_t>(crc32c_ + 4 * i),
            .label = base::load_le<int32_t>(label_ + 4 * i)};
  }

 private:
  struct Row {
    bool is_loaded = false;
    bool is_loading = false;
    uint64_t failures = 0;
    Status failure = {};  // the latest
  };
  // The state that the threads of one process share while they read rows.
  struct Rows {
    explicit Rows(size_t count) : rows(count) {}
    base::Mutex mutex;
    base::CondVar loaded;
    std::vector<Row> rows GUARDED_BY(mutex);
  };
  struct RowBytes {
    uint32_t row = 0;
    base::ByteVector bytes = {};  // the row's bytes of each column, one after the other
  };

  uint64_t value_bytes(PartColumn column) const;
  uint8_t* value(PartColumn column, uint64_t sample);
  uint32_t end_of_row(uint32_t row) const;
  std::string kept_name_of(uint32_t row) const;
  Status check_row(uint32_t row, Bytes bytes) const;
  Status check_chunk(uint32_t chunk) const;

  Rows& rows();
  std::vector<uint32_t> rows_of(std::span<const uint32_t> chunks) const;
  Result<std::vector<uint32_t>> claim(std::vector<uint32_t> wanted, const io::ReadOptions& options);
  Result<std::vector<RowBytes>> read_rows(std::span<const uint32_t> rows,
                                          const io::ReadOptions& options) const;
  std::vector<io::Range> ranges_of(std::span<RowBytes* const> rows) const;
  Status read_missing(std::span<RowBytes* const> rows, const io::ReadOptions& options) const;
  Status check_rows(std::span<RowBytes* const> rows) const;
  Status take(std::span<const uint32_t> claimed, const Result<std::vector<RowBytes>>& read,
              bool gave_up);
  void copy(const RowBytes& row);
  Status note_known(std::span<const uint32_t> read, Rows& shared) REQUIRES(shared.mutex);
  std::pair<uint32_t, uint32_t> chunks_in(uint32_t row) const;

  const Source source_;
  base::ByteVector columns_;  // the file's bytes of these columns
  // Where each column begins in columns_.
  const uint8_t* const offset_;
  const uint8_t* const length_;
  const uint8_t* const crc32c_;
  const uint8_t* const label_;
  const bool is_wide_;  // whether an offset has 8 bytes
  bool knows_all_ = false;
  // One flag for each chunk. It is set once, after its samples' values have been written to
  // columns_; from then on these values do not change.
  std::unique_ptr<std::atomic<bool>[]> known_;
  io::PerProcess<Rows> rows_;
};

}  // namespace forebay::store
