#include "image/augment/picture.h"

#include <algorithm>

namespace forebay::image {

void Picture::reset(Size size) {
  constexpr size_t kStep = base::kPlanarPadding;
  size_ = size;
  stride_ = (size.width + kStep - 1) / kStep * kStep;
  bytes_.resize(3 * stride_ * size.height + kStep);
}

void Picture::fill(Size size, const std::array<uint8_t, 3>& colour) {
  reset(size);
  for (size_t channel = 0; channel < 3; ++channel) {
    std::fill_n(row(channel, 0), stride_ * size.height, colour[channel]);
  }
}

void Picture::set_row(uint32_t y, const PlanarRow& from, bool flip) {
  for (size_t channel = 0; channel < 3; ++channel) {
    base::copy_channel(from[channel], size_.width, flip, row(channel, y));
  }
}

}  // namespace forebay::image
