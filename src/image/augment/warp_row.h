// Which places of a picture the pixels of a row show: torchvision's maps, as PyTorch computes them
// in float32.
#pragma once

#include "image/augment/warp.h"

namespace forebay::image {

// Places of the result become places from -1 to 1 in the picture. Each product and sum is rounded
// by itself.
struct WarpRow {
  std::array<float, 3> across;  // by x, by y, and what is added
  std::array<float, 3> down;
  std::array<float, 3> divisor;  // for a projection
  bool projective;
  float first_x;  // the place of a row's first pixel; the others follow in steps of one
  float first_y;
  float y;
  Size picture;

  // Row `row` of the picture that is made.
  WarpRow at(uint32_t row) const {
    WarpRow out = *this;
    out.y = first_y + static_cast<float>(row);
    return out;
  }
};

WarpRow warp_row(const Affine& map, Size size);
WarpRow warp_row(const Projection& map, Size size);

}  // namespace forebay::image
