// Recycled memory for batches. A batch comes back when its last owner lets go of it, which may be
// long after the feed is gone.
#pragma once

#include <memory>

#include "base/mutex.h"
#include "feed/feed.h"
#include "io/large_buffer.h"

namespace forebay::feed {

// Any thread may call anything.
class BatchPool : public std::enable_shared_from_this<BatchPool> {
 public:
  struct Shape {
    uint32_t samples = 0;
    size_t sample_bytes = 0;
    image::Size size;                                 // pixels
    std::shared_ptr<image::gpu::Device> device = {};  // whose memory; null: the host's
    bool whole = false;
    bool files = false;
    uint64_t bytes() const { return samples * uint64_t{sample_bytes}; }
    bool operator==(const Shape&) const = default;
  };

  // Keeps at most `kept_max` batches that nobody uses.
  BatchPool(const Shape& shape, size_t kept_max) : shape_(shape), kept_max_(kept_max) {}

  // A batch whose content is undefined; empty when all batches together would take more than
  // `bytes_max`.
  std::shared_ptr<Batch> take(uint64_t bytes_max) EXCLUDES(mutex_);
  // Batches that somebody uses.
  size_t in_use() EXCLUDES(mutex_);

 private:
  struct Pooled : Batch {
    std::shared_ptr<uint8_t> memory;
  };
  // Null, or std::bad_alloc, when there is no memory.
  std::unique_ptr<Pooled> allocate() const;
  void give_back(std::unique_ptr<Pooled> batch) EXCLUDES(mutex_);

  const Shape shape_;
  const size_t kept_max_;
  base::Mutex mutex_;
  std::vector<std::unique_ptr<Pooled>> free_ GUARDED_BY(mutex_);
  size_t in_use_ GUARDED_BY(mutex_) = 0;
};

}  // namespace forebay::feed
