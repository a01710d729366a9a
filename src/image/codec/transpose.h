// Transposes blocks of 16 x 16 pixels of one channel: rows become columns.
#pragma once

#include <hwy/highway.h>

#include <array>

namespace forebay::image {

inline constexpr size_t kBlockSide = 16;
inline constexpr hwy::HWY_NAMESPACE::FixedTag<uint8_t, kBlockSide> kBlockRow;
using Block = std::array<hwy::HWY_NAMESPACE::Vec<decltype(kBlockRow)>, kBlockSide>;

// `row_at(i)` returns the address of the first pixel of row i. Each shuffle rotates the eight bits
// of a pixel's number in the block by one, so four shuffles swap its row and its column.
template <class RowAt>
Block transposed_block(const RowAt& row_at) {
  namespace hn = hwy::HWY_NAMESPACE;
  Block block;
  for (size_t i = 0; i < kBlockSide; ++i) block[i] = hn::LoadU(kBlockRow, row_at(i));
  for (int shuffle = 0; shuffle < 4; ++shuffle) {
    Block next;
    for (size_t i = 0; i < kBlockSide / 2; ++i) {
      const auto other = block[i + kBlockSide / 2];
      next[2 * i] = hn::InterleaveLower(kBlockRow, block[i], other);
      next[2 * i + 1] = hn::InterleaveUpper(kBlockRow, block[i], other);
    }
    block = next;
  }
  return block;
}

}  // namespace forebay::image
