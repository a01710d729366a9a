#include "base/pixels.h"

#include <cstring>

#include "base/limits.h"

namespace forebay::base {

// Every row moves towards the front, so no row overwrites one that is still needed.
void Pixels::crop(const Rect& region) {
  FOREBAY_CHECK(region.inside(width, height));
  const size_t from_stride = size_t{width} * 3;
  const size_t to_stride = size_t{region.width} * 3;
  for (size_t y = 0; y < region.height; ++y) {
    std::memmove(rgb.data() + y * to_stride,
                 rgb.data() + (region.y + y) * from_stride + size_t{region.x} * 3, to_stride);
  }
  reset(region.width, region.height);
}

PlanarRow PixelRows::row(uint32_t y) {
  const size_t width = pixels.width;
  const size_t stride = width + kPlanarPadding;
  row_.resize(3 * stride);
  const uint8_t* const from = pixels.rgb.data() + y * width * 3;
  uint8_t* const to = row_.data();
  for (size_t x = 0; x < width; ++x) {
    to[x] = from[3 * x];
    to[stride + x] = from[3 * x + 1];
    to[2 * stride + x] = from[3 * x + 2];
  }
  return {to, to + stride, to + 2 * stride};
}

Status check_image_size(std::string_view what, uint32_t width, uint32_t height) {
  if (width <= kImageSideMax && height <= kImageSideMax &&
      uint64_t{width} * height <= kImagePixelsMax) {
    return {};
  }
  return fail(Code::kTooBig, "{}: {} x {} pixels; the limits are {} a side and {} in all", what,
              width, height, kImageSideMax, kImagePixelsMax);
}

}  // namespace forebay::base
