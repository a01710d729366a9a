#include "prep/wire/received_memory.h"

#include <algorithm>

namespace forebay::prep {

std::shared_ptr<uint8_t> ReceivedMemory::take(uint64_t bytes) {
  auto buffer = std::make_unique<io::LargeBuffer>(find(bytes));
  uint8_t* const memory = buffer->data();
  auto give_back = [pool = weak_from_this(),
                    buffer = std::shared_ptr(std::move(buffer))](uint8_t*) {
    if (const auto here = pool.lock()) here->give_back(std::move(*buffer));
  };
  return {memory, std::move(give_back)};
}

// Returns a free buffer that is at most about twice as large as needed, or a new buffer.
io::LargeBuffer ReceivedMemory::find(uint64_t bytes) {
  {
    const base::MutexLock lock(mutex_);
    const auto fits = [&](const io::LargeBuffer& one) {
      return one.size() >= bytes && one.size() / 2 <= bytes;
    };
    const auto found = std::ranges::find_if(free_, fits);
    if (found != free_.end()) {
      io::LargeBuffer out = std::move(*found);
      free_.erase(found);
      return out;
    }
  }
  return io::LargeBuffer(bytes);
}

void ReceivedMemory::give_back(io::LargeBuffer buffer) {
  if (buffer.size() < kKeptLeast) return;
  const base::MutexLock lock(mutex_);
  if (free_.size() == kFreeKept) free_.erase(free_.begin());
  free_.push_back(std::move(buffer));
}

}  // namespace forebay::prep
