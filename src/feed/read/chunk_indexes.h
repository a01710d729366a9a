// What chunks' indexes say about images of which parts can be read, and those headers of these
// images that were read. The ones used last are in memory, up to a limit; for other processes and
// later days they are kept on this machine (store/kept.h).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "store/dataset.h"

namespace forebay::feed {

using base::Result;
using base::Status;

// An image with restart segments.
struct IndexedImage {
  uint64_t offset = 0;  // in the chunk's file
  uint64_t length = 0;
  uint32_t width = 0;  // pixels
  uint32_t height = 0;
  jpeg::Subsampling subsampling = jpeg::Subsampling::kUnknown;
  jpeg::RestartIndex restart;
};

// The images of one chunk. Any thread may call anything.
class IndexedChunk {
 public:
  // Images of which no parts can be read are left out.
  explicit IndexedChunk(const store::ChunkIndex& index);

  // The image at this range of the chunk's file; null if there is none. It lives as long as the
  // chunk.
  const IndexedImage* image(uint64_t offset, uint64_t length) const;
  // The image's header, which is checked; empty if it is not known. It lives as long as the chunk.
  base::Bytes header(const IndexedImage& image) const EXCLUDES(mutex_);
  void keep_header(const IndexedImage& image, base::Bytes header) EXCLUDES(mutex_);
  // Encodes all known headers for other processes, and marks them as kept.
  base::ByteVector encode_headers() EXCLUDES(mutex_);
  // Takes the headers that belong to these images from bytes that encode_headers() made. They do
  // not count as new.
  void add_headers(base::Bytes encoded) EXCLUDES(mutex_);
  // Whether any header was kept since the last encode_headers(), or so many that it is time for
  // the next one.
  bool has_new_headers() const EXCLUDES(mutex_);
  bool has_many_new_headers() const EXCLUDES(mutex_);
  // Memory that the chunk takes once all headers are known.
  uint64_t bytes() const { return bytes_; }

 private:
  size_t number(const IndexedImage& image) const {
    return static_cast<size_t>(&image - images_.data());
  }

  std::vector<IndexedImage> images_;  // ascending by their offsets
  uint64_t bytes_ = 0;
  mutable base::Mutex mutex_;
  std::vector<base::ByteVector> headers_ GUARDED_BY(mutex_);  // like images_; each is set once
  size_t known_ GUARDED_BY(mutex_) = 0;                       // how many are set
  size_t new_ GUARDED_BY(mutex_) = 0;
};

// Any thread may call anything.
class ChunkIndexes {
 public:
  // Indexes that nobody else holds take at most `bytes_max`. The dataset must outlive this.
  ChunkIndexes(const store::Dataset& dataset, uint64_t bytes_max)
      : dataset_(dataset), bytes_max_(bytes_max) {}
  // Keeps the new headers for other processes.
  ~ChunkIndexes();
  ChunkIndexes(const ChunkIndexes&) = delete;
  ChunkIndexes& operator=(const ChunkIndexes&) = delete;

  // The images of the chunk with this id (store::ChunkInfo) if they are known; else null.
  std::shared_ptr<IndexedChunk> find(const base::Sha256& id) EXCLUDES(mutex_);
  // Reads the index of the dataset's chunk with this number unless it is known, and waits for that.
  // Null if the chunk has no index, or a damaged one: its images can still be read as a whole.
  // Errors: read errors; kNoMemory.
  Result<std::shared_ptr<IndexedChunk>> get(uint32_t chunk, const io::ReadOptions& options)
      EXCLUDES(mutex_);

  // Whether this machine keeps the index of the dataset's chunk with this number, so that get()
  // reads nothing over the network.
  bool is_kept(uint32_t chunk) const;
  // Keeps the headers of the dataset's chunk with this number for other processes, if many are new.
  void keep_headers(uint32_t number, IndexedChunk& chunk) const;

  // What was read over the network so far.
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t reads() const { return reads_; }

 private:
  struct Entry {
    std::shared_ptr<IndexedChunk> chunk;  // null while it is being read, and without an index
    uint32_t number = 0;                  // of a chunk of the dataset with this id
    bool reading = false;
    uint64_t used = 0;  // the count of uses at its last use
  };

  Result<std::shared_ptr<IndexedChunk>> read(uint32_t chunk, const io::ReadOptions& options);
  std::vector<Entry> drop_oldest() REQUIRES(mutex_);
  void write_headers(uint32_t number, IndexedChunk& chunk) const;

  const store::Dataset& dataset_;
  const uint64_t bytes_max_;
  base::Mutex mutex_;
  base::CondVar read_;
  // By the chunks' ids, because chunks of a view may be pieces of the same stored chunk.
  std::map<base::Sha256, Entry> entries_ GUARDED_BY(mutex_);
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t uses_ GUARDED_BY(mutex_) = 0;
  uint64_t failures_ GUARDED_BY(mutex_) = 0;  // of reading
  // The last failure, and its chunk's id.
  Status failure_ GUARDED_BY(mutex_);
  base::Sha256 failed_ GUARDED_BY(mutex_){};
  std::atomic<uint64_t> bytes_read_ = 0;
  std::atomic<uint64_t> reads_ = 0;
};

}  // namespace forebay::feed
