#include "base/pixels.h"

#include <cstring>

#include "base/limits.h"

namespace forebay::base {

// In place: every row moves towards the front.
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

Status check_image_size(std::string_view what, uint32_t width, uint32_t height) {
  if (width <= kImageSideMax && height <= kImageSideMax &&
      uint64_t{width} * height <= kImagePixelsMax) {
    return {};
  }
  return fail(Code::kTooBig, "{}: {} x {} pixels; the limits are {} a side and {} in all", what,
              width, height, kImageSideMax, kImagePixelsMax);
}

}  // namespace forebay::base
