#include "image/augment/picture.h"

#include <algorithm>
#include <cstring>

namespace forebay::image {

void Picture::reset(Size size) {
  constexpr size_t kStep = base::kPlanarPadding;
  size_ = size;
  stride_ = (size.width + kStep - 1) / kStep * kStep;
  bytes_.resize(3 * stride_ * size.height + kStep);
}

void Picture::set_row(uint32_t y, const PlanarRow& from, bool flip) {
  for (size_t channel = 0; channel < 3; ++channel) {
    const uint8_t* const source = from[channel];
    if (flip) {
      std::reverse_copy(source, source + size_.width, row(channel, y));
    } else {
      std::memcpy(row(channel, y), source, size_.width);
    }
  }
}

void PictureRows::move_to(base::Pixels* out) {
  out->reset(region_.width, region_.height);
  uint8_t* to = out->rgb.data();
  for (uint32_t y = 0; y < region_.height; ++y) {
    const PlanarRow from = row(y);
    for (uint32_t x = 0; x < region_.width; ++x) {
      for (const uint8_t* channel : from) *to++ = channel[x];
    }
  }
}

}  // namespace forebay::image
