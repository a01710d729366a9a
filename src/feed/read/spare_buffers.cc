#include "feed/read/spare_buffers.h"

#include <utility>

namespace forebay::feed {

namespace {

constexpr uint64_t kBufferUnit = 2u << 20;  // io::LargeBuffer rounds large sizes up to this
constexpr uint64_t kSmallUnit = 64u << 10;  // how much larger a buffer for a slice may always be
constexpr size_t kBuffersKept = 256;

}  // namespace

SpareBuffers::SpareBuffers() { buffers_.reserve(kBuffersKept); }

// Takes the smallest buffer that is large enough, but none that is much larger, because only the
// requested bytes are counted.
io::LargeBuffer SpareBuffers::take(uint64_t bytes) {
  auto best = buffers_.end();
  const uint64_t unit = bytes >= kBufferUnit / 2 ? kBufferUnit : kSmallUnit;
  size_t best_size = bytes + bytes / 8 + unit + 1;
  for (auto it = buffers_.begin(); it != buffers_.end(); ++it) {
    const size_t size = it->buffer.size();
    if (size < bytes || size >= best_size) continue;
    best = it;
    best_size = size;
  }
  if (best == buffers_.end()) return io::LargeBuffer(bytes);
  io::LargeBuffer buffer = std::move(best->buffer);
  bytes_ -= best->bytes;
  buffers_.erase(best);
  return buffer;
}

void SpareBuffers::keep(io::LargeBuffer buffer, uint64_t bytes) {
  if (buffer.size() == 0 || buffers_.size() == kBuffersKept) return;
  bytes_ += bytes;
  buffers_.push_back({std::move(buffer), bytes});
}

void SpareBuffers::shrink_to(uint64_t bytes_max) {
  while (!buffers_.empty() && bytes_ > bytes_max) {
    bytes_ -= buffers_.front().bytes;
    buffers_.erase(buffers_.begin());
  }
}

}  // namespace forebay::feed
