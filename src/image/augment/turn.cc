// Quarter turns. Compiled once for each instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/augment/turn.cc"
#include <hwy/foreach_target.h>
// clang-format off: foreach_target comes first
#include <hwy/highway.h>
// clang-format on

#include <algorithm>

#include "image/augment/turn.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::image::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::FixedTag<uint8_t, 16>;
using Block = std::array<hn::Vec<D>, 16>;  // of 16 x 16 pixels
constexpr D d;

// Each shuffle rotates the eight bits of a pixel's number in the block by one, so that four swap
// its row and its column.
HWY_INLINE Block transposed(Block block) {
  for (int shuffle = 0; shuffle < 4; ++shuffle) {
    Block next;
    for (size_t i = 0; i < 8; ++i) {
      next[2 * i] = hn::InterleaveLower(d, block[i], block[i + 8]);
      next[2 * i + 1] = hn::InterleaveUpper(d, block[i], block[i + 8]);
    }
    block = next;
  }
  return block;
}

void transpose(const Picture& from, size_t channel, Picture* to) {
  const Size size = from.size();
  for (uint32_t y = 0; y < size.height; y += 16) {
    for (uint32_t x = 0; x < size.width; x += 16) {
      Block block;
      for (uint32_t i = 0; i < 16; ++i) {
        block[i] = hn::LoadU(d, from.row(channel, std::min(y + i, size.height - 1)) + x);
      }
      block = transposed(block);
      const uint32_t rows = std::min(size.width - x, 16U);
      for (uint32_t i = 0; i < rows; ++i) hn::StoreU(block[i], d, to->row(channel, x + i) + y);
    }
  }
}

}  // namespace
}  // namespace forebay::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forebay::image {

HWY_EXPORT(transpose);

void transpose(const Picture& from, Picture* to) {
  to->reset({from.size().height, from.size().width});
  for (size_t channel = 0; channel < 3; ++channel) {
    HWY_DYNAMIC_DISPATCH(transpose)(from, channel, to);
  }
}

void turn(const Picture& from, uint32_t quarters, Picture* to) {
  Picture columns;
  if (quarters % 2 == 1) transpose(from, &columns);
  const Picture& rows = quarters % 2 == 1 ? columns : from;
  const bool mirrored = quarters % 4 >= 2;
  const bool upside_down = quarters % 4 == 1 || quarters % 4 == 2;
  const uint32_t height = rows.size().height;
  to->reset(rows.size());
  for (uint32_t y = 0; y < height; ++y) {
    to->set_row(upside_down ? height - 1 - y : y, rows.rows(y), mirrored);
  }
}

}  // namespace forebay::image
#endif  // HWY_ONCE
