// Memory for batches that come from elsewhere, used again and again: the system clears new memory
// page by page, which can take longer than the batch's way through the network.
#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "io/large_buffer.h"

namespace forebay::prep {

// Any thread may call anything.
class ReceivedMemory : public std::enable_shared_from_this<ReceivedMemory> {
 public:
  // Memory for at least so many bytes, whose content is undefined. It comes back, unless it is
  // small, when its last owner lets go, which may be after this object's own end. Throws
  // std::bad_alloc.
  std::shared_ptr<uint8_t> take(uint64_t bytes) EXCLUDES(mutex_);

 private:
  // Batches come and go one by one, so few are free at a time.
  static constexpr size_t kFreeKept = 4;
  // Bytes. Less is text, say an answer that names a file, and must not drive out memory for
  // batches.
  static constexpr uint64_t kKeptLeast = 64 << 10;

  io::LargeBuffer find(uint64_t bytes) EXCLUDES(mutex_);
  void give_back(io::LargeBuffer buffer) EXCLUDES(mutex_);

  base::Mutex mutex_;
  std::vector<io::LargeBuffer> free_ GUARDED_BY(mutex_);  // the one that came back last is last
};

}  // namespace forebay::prep
