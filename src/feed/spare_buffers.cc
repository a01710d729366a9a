#include "feed/spare_buffers.h"

#include <utility>

namespace forebay::feed {

namespace {

constexpr uint64_t kBufferUnit = 2u << 20;  // io::LargeBuffer rounds large sizes up to this
constexpr size_t kBuffersKept = 256;

}  // namespace

SpareBuffers::SpareBuffers() { buffers_.reserve(kBuffersKept); }

// Takes the smallest buffer that is large enough, but none that is much larger: only the bytes that
// are asked for are counted.
io::LargeBuffer SpareBuffers::take(uint64_t bytes) {
  auto best = buffers_.end();
  for (auto it = buffers_.begin(); it != buffers_.end(); ++it) {
    const bool fits = it->size() >= bytes && it->size() <= bytes + bytes / 8 + kBufferUnit;
    if (fits && (best == buffers_.end() || it->size() < best->size())) best = it;
  }
  if (best == buffers_.end()) return io::LargeBuffer(bytes);
  io::LargeBuffer buffer = std::move(*best);
  buffers_.erase(best);
  bytes_ -= buffer.size();
  return buffer;
}

void SpareBuffers::keep(io::LargeBuffer buffer) {
  if (buffer.size() == 0 || buffers_.size() == kBuffersKept) return;
  bytes_ += buffer.size();
  buffers_.push_back(std::move(buffer));
}

void SpareBuffers::shrink_to(uint64_t bytes_max) {
  while (!buffers_.empty() && bytes_ > bytes_max) {
    bytes_ -= buffers_.front().size();
    buffers_.erase(buffers_.begin());
  }
}

}  // namespace forebay::feed
