// Recycles the memory of batches, and counts how much they take. A batch returns to the pool when
// its last owner releases it, which may be long after the feed is gone.
//
// Images in their own sizes and files are counted when their sizes are known, shortly before they
// are made. Blocks of slots reserve this memory one after the other, in the order of their batches.
// So a block that waits for room waits only for batches that the consumer holds or gets earlier.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "base/mutex.h"
#include "base/status.h"
#include "feed/batch/batch.h"
#include "image/gpu/device_gpu.h"
#include "io/large_buffer.h"

namespace forebay::feed {

using base::Status;

// Any thread may call anything.
class BatchPool : public std::enable_shared_from_this<BatchPool> {
 public:
  struct Shape {
    uint32_t samples = 0;
    size_t sample_bytes = 0;                          // of one image
    uint32_t images_each = 1;                         // images of each sample
    image::Size size;                                 // pixels
    std::shared_ptr<image::gpu::Device> device = {};  // has the tensors; null: the host has them
    bool whole = false;
    bool files = false;
    bool targets = false;
    // Bytes of the tensors, the same for all batches.
    uint64_t bytes() const { return samples * uint64_t{sample_bytes} * images_each; }
    // Whether batches also have data of different sizes.
    bool varies() const { return whole || files || targets; }
    bool operator==(const Shape&) const = default;
  };

  // Keeps at most `kept_max` unused batches. Batches in use take at most `bytes_max`.
  BatchPool(const Shape& shape, size_t kept_max, uint64_t bytes_max)
      : shape_(shape), kept_max_(kept_max), bytes_max_(bytes_max) {}

  // Returns a batch with undefined content; null when the batches together would take too much
  // memory, or the memory cannot be allocated.
  std::shared_ptr<Batch> take() EXCLUDES(mutex_);
  // The number of batches in use.
  size_t in_use() EXCLUDES(mutex_);

  // Counts the bytes of images and files that block number `block` will make for `batch`, which
  // comes from take(). Waits until all earlier blocks have ended, then until there is room; calls
  // `on_shortage` if there is none. Errors: kCancelled after stop().
  Status reserve(Batch& batch, uint64_t block, uint64_t bytes,
                 const std::function<void()>& on_shortage) EXCLUDES(mutex_);
  // Says that the block will reserve no more. Blocks are numbered from 0.
  void end_block(uint64_t block) EXCLUDES(mutex_);
  // Whether all blocks below this number have ended.
  bool blocks_ended(uint64_t count) EXCLUDES(mutex_);
  // Counts bytes without waiting, for a sample that replaces a bad one.
  void add(Batch& batch, uint64_t bytes) EXCLUDES(mutex_);
  // Ends every wait; reserve() then returns kCancelled.
  void stop() EXCLUDES(mutex_);

  struct Shortage {
    uint64_t block = 0;  // the number of the block that waits for room
    uint64_t bytes = 0;  // bytes that the block needs
    uint64_t used = 0;   // bytes that all batches take
  };
  std::optional<Shortage> shortage() EXCLUDES(mutex_);
  // The most bytes that all batches together have taken.
  uint64_t bytes_peak() EXCLUDES(mutex_);

 private:
  struct Pooled : Batch {
    std::shared_ptr<uint8_t> memory;
    uint64_t reserved = 0;  // bytes of its images and files
  };
  // Returns null or throws std::bad_alloc when there is no memory.
  std::unique_ptr<Pooled> allocate() const;
  void give_back(std::unique_ptr<Pooled> batch) EXCLUDES(mutex_);
  uint64_t used() const REQUIRES(mutex_) { return in_use_ * shape_.bytes() + reserved_; }
  void count(Batch& batch, uint64_t bytes) REQUIRES(mutex_);

  const Shape shape_;
  const size_t kept_max_;
  const uint64_t bytes_max_;
  base::Mutex mutex_;
  base::CondVar room_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  uint64_t reserved_ GUARDED_BY(mutex_) = 0;
  uint64_t bytes_peak_ GUARDED_BY(mutex_) = 0;
  uint64_t block_ GUARDED_BY(mutex_) = 0;        // the first block that has not ended
  std::set<uint64_t> ended_ GUARDED_BY(mutex_);  // later blocks that have ended
  std::optional<Shortage> shortage_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Pooled>> free_ GUARDED_BY(mutex_);
  size_t in_use_ GUARDED_BY(mutex_) = 0;
};

}  // namespace forebay::feed
