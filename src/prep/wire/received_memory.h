// A pool of memory for received batches. It reuses memory, because the system clears new memory
// page by page, which can take longer than receiving the batch.
#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "io/large_buffer.h"

namespace forebay::prep {

// Any thread may call anything.
class ReceivedMemory : public std::enable_shared_from_this<ReceivedMemory> {
 public:
  // Memory for at least so many bytes, with undefined content. When its last owner releases it, it
  // returns to the pool, unless it is small or the pool is gone. Throws std::bad_alloc.
  std::shared_ptr<uint8_t> take(uint64_t bytes) EXCLUDES(mutex_);

 private:
  // Batches come and go one by one, so few are free at a time.
  static constexpr size_t kFreeKept = 4;
  // Smaller memory is for short answers, such as the name of a file, and must not drive out memory
  // for batches. In bytes.
  static constexpr uint64_t kKeptLeast = 64 << 10;

  io::LargeBuffer find(uint64_t bytes) EXCLUDES(mutex_);
  void give_back(io::LargeBuffer buffer) EXCLUDES(mutex_);

  base::Mutex mutex_;
  std::vector<io::LargeBuffer> free_ GUARDED_BY(mutex_);  // in the order of release
};

}  // namespace forebay::prep
