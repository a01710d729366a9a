#include "base/pixels.h"

#include <hwy/highway.h>

#include <algorithm>
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

void copy_channel(const uint8_t* from, size_t width, bool mirrored, uint8_t* to) {
  if (!mirrored) {
    std::memcpy(to, from, width);
    return;
  }
  constexpr size_t kWord = sizeof(uint64_t);
  size_t done = 0;
  for (; done + kWord <= width; done += kWord) {
    uint64_t word;
    std::memcpy(&word, from + width - done - kWord, kWord);
    word = __builtin_bswap64(word);
    std::memcpy(to + done, &word, kWord);
  }
  std::reverse_copy(from, from + width - done, to + done);
}

void Rows::move_to(Pixels* out) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr uint32_t kLanes = 16;
  constexpr hn::FixedTag<uint8_t, kLanes> d;
  out->reset(width(), height());
  uint8_t* to = out->rgb.data();
  for (uint32_t y = 0; y < height(); ++y) {
    const PlanarRow from = row(y);
    uint32_t x = 0;
    for (; x + kLanes <= width(); x += kLanes, to += 3 * kLanes) {
      hn::StoreInterleaved3(hn::LoadU(d, from[0] + x), hn::LoadU(d, from[1] + x),
                            hn::LoadU(d, from[2] + x), d, to);
    }
    for (; x < width(); ++x) {
      for (const uint8_t* channel : from) *to++ = channel[x];
    }
  }
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
