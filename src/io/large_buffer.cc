#include "io/large_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "base/bytes.h"

namespace forebay::io {

namespace {

constexpr size_t kHugePage = 2u << 20;

// From this size on a buffer has a mapping of its own.
constexpr size_t kMappedMin = kHugePage / 2;

// A mapping may begin at any small page. So this maps one huge page more than needed, and unmaps
// the excess at both ends.
uint8_t* map_huge(size_t bytes) {
  const size_t mapped = bytes + kHugePage;
  void* const at =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  const auto address = reinterpret_cast<uintptr_t>(at);
  const size_t before = base::round_up(address, kHugePage) - address;
  auto* const begin = static_cast<uint8_t*>(at) + before;
  if (before > 0) ::munmap(at, before);
  if (before < kHugePage) ::munmap(begin + bytes, kHugePage - before);
  ::madvise(begin, bytes, MADV_HUGEPAGE);
  return begin;
}

}  // namespace

LargeBuffer::LargeBuffer(size_t bytes) {
  if (bytes > SIZE_MAX / 2) throw std::bad_alloc();
  if (bytes >= kMappedMin) {
    const size_t size = base::round_up(bytes, kHugePage);
    memory_ = {map_huge(size), Release{size}};
    return;
  }
  const size_t size = base::round_up(std::max<size_t>(bytes, 1), kDirectAlignment);
  auto* const memory = static_cast<uint8_t*>(std::aligned_alloc(kDirectAlignment, size));
  if (memory == nullptr) throw std::bad_alloc();
  memory_ = {memory, Release{size}};
}

void LargeBuffer::Release::operator()(uint8_t* memory) const {
  if (bytes >= kHugePage) {  // mapped, since smaller buffers are never this large
    ::munmap(memory, bytes);
  } else {
    std::free(memory);
  }
}

}  // namespace forebay::io
