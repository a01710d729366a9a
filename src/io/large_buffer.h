// A buffer of memory for repeated use: aligned for direct reads, which bypass the page cache, and
// in huge pages if the system has them. With small pages, direct reads are several times slower,
// and code that works in many places at once runs out of address translations (TLB).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace forebay::io {

// Direct reads need file offsets and addresses that are multiples of this.
inline constexpr size_t kDirectAlignment = 4096;

class LargeBuffer {
 public:
  LargeBuffer() = default;
  // The memory is not initialised. Throws std::bad_alloc.
  explicit LargeBuffer(size_t bytes);

  uint8_t* data() const { return memory_.get(); }
  // The buffer's size, which is at least the number of bytes that was asked for.
  size_t size() const { return memory_ ? memory_.get_deleter().bytes : 0; }

 private:
  struct Release {
    size_t bytes;
    void operator()(uint8_t* memory) const;
  };
  std::unique_ptr<uint8_t[], Release> memory_{nullptr, Release{0}};
};

}  // namespace forebay::io
