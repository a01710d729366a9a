#include "image/codec/orientation.h"

#include <algorithm>
#include <cstring>

#include "image/codec/transpose.h"

namespace forebay::image {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Stored rows that are turned together: their pixels fill whole cache lines of the shown rows.
constexpr uint32_t kBandRows = 64;
static_assert(kBandRows % kBlockSide == 0 && base::kPlanarPadding >= kBlockSide);

size_t padded(size_t width) {
  constexpr size_t kStep = base::kPlanarPadding;
  return (width + kStep - 1) / kStep * kStep;
}

}  // namespace

base::Rect stored_region(const base::Rect& shown, uint32_t width, uint32_t height,
                         const Orientation& orientation) {
  base::Rect out = shown;
  if (orientation.transposed) out = {shown.y, shown.x, shown.height, shown.width};
  if (orientation.across) out.x = width - out.x - out.width;
  if (orientation.down) out.y = height - out.y - out.height;
  return out;
}

void OrientedRows::reset(uint32_t width, uint32_t height) {
  width_ = width;
  height_ = height;
  stride_ = padded(width);
  bytes_.resize(3 * stride_ * height + base::kPlanarPadding);
}

void OrientedRows::turn(base::Rows& stored, const Orientation& orientation) {
  if (orientation.transposed) {
    transpose(stored, orientation);
  } else {
    mirror(stored, orientation);
  }
}

void OrientedRows::mirror(base::Rows& stored, const Orientation& orientation) {
  reset(stored.width(), stored.height());
  for (uint32_t y = 0; y < height_; ++y) {
    const base::PlanarRow from = stored.row(y);
    for (size_t channel = 0; channel < 3; ++channel) {
      base::copy_channel(from[channel], width_, orientation.across,
                         at(channel, orientation.down ? height_ - 1 - y : y));
    }
  }
}

void OrientedRows::transpose(base::Rows& stored, const Orientation& orientation) {
  const uint32_t width = stored.width();
  const uint32_t height = stored.height();
  reset(height, width);
  const size_t stride = padded(width);
  band_.resize(3 * kBandRows * stride);
  // Each band becomes columns from a multiple of kBandRows on. Its last block may write into the
  // padding of rows, but never over pixels: if the image is mirrored top to bottom, the band with
  // the fewest rows, which become the last columns, therefore comes first.
  uint32_t rows = orientation.down ? (height - 1) % kBandRows + 1 : std::min(height, kBandRows);
  for (uint32_t first = 0; first < height; first += rows) {
    if (first > 0) rows = std::min(height - first, kBandRows);
    for (uint32_t i = 0; i < rows; ++i) {
      const base::PlanarRow from = stored.row(first + i);
      const size_t line = orientation.down ? rows - 1 - i : i;
      for (size_t channel = 0; channel < 3; ++channel) {
        std::memcpy(band_.data() + (channel * kBandRows + line) * stride, from[channel], width);
      }
    }
    transpose_band(rows, orientation.down ? height - first - rows : first, orientation.across);
  }
}

// Writes the rows of band_ to the columns from `left` on.
void OrientedRows::transpose_band(uint32_t rows, uint32_t left, bool across) {
  const size_t stride = padded(height_);
  const auto store = [&](const Block& block, size_t channel, uint32_t x, uint32_t to) {
    const uint32_t count = std::min<uint32_t>(kBlockSide, height_ - x);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t y = across ? height_ - 1 - x - i : x + i;
      hn::StoreU(block[i], kBlockRow, at(channel, y) + to);
    }
  };
  for (size_t channel = 0; channel < 3; ++channel) {
    const uint8_t* const band = band_.data() + channel * kBandRows * stride;
    for (uint32_t x = 0; x < height_; x += kBlockSide) {
      for (uint32_t line = 0; line < rows; line += kBlockSide) {
        const auto row_at = [&](size_t i) { return band + (line + i) * stride + x; };
        store(transposed_block(row_at), channel, x, left + line);
      }
    }
  }
}

}  // namespace forebay::image
