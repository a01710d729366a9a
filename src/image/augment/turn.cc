#include "image/augment/turn.h"

#include <algorithm>

#include "image/codec/transpose.h"

namespace forebay::image {

// Rows have room for whole blocks, even beyond their pixels.
void transpose(const Picture& from, Picture* to) {
  const Size size = from.size();
  to->reset({size.height, size.width});
  for (size_t channel = 0; channel < 3; ++channel) {
    for (uint32_t y = 0; y < size.height; y += kBlockSide) {
      const auto row = [&](size_t i) {
        return from.row(channel, std::min(y + static_cast<uint32_t>(i), size.height - 1));
      };
      for (uint32_t x = 0; x < size.width; x += kBlockSide) {
        const Block block = transposed_block([&](size_t i) { return row(i) + x; });
        const uint32_t rows = std::min<uint32_t>(size.width - x, kBlockSide);
        for (uint32_t i = 0; i < rows; ++i) {
          hwy::HWY_NAMESPACE::StoreU(block[i], kBlockRow, to->row(channel, x + i) + y);
        }
      }
    }
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
