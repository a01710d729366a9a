// The memory of dropped loads, kept for later ones, because new memory costs a page fault for each
// page.
#pragma once

#include <vector>

#include "io/large_buffer.h"

namespace forebay::feed {

// One thread at a time may use it.
class SpareBuffers {
 public:
  SpareBuffers();
  // A buffer of at least `bytes`: a spare one if one fits, else a new one. Throws std::bad_alloc.
  io::LargeBuffer take(uint64_t bytes);
  // Keeps a buffer, or frees it when there are very many. `bytes` is what it was taken for. Never
  // fails.
  void keep(io::LargeBuffer buffer, uint64_t bytes);
  // Frees the oldest buffers until the others were taken for at most `bytes_max` together.
  void shrink_to(uint64_t bytes_max);

 private:
  struct Spare {
    io::LargeBuffer buffer;
    uint64_t bytes = 0;
  };
  std::vector<Spare> buffers_;
  uint64_t bytes_ = 0;
};

}  // namespace forebay::feed
