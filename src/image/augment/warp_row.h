// Which positions of a picture the pixels of a row show: torchvision's maps, computed in float32
// like PyTorch does.
#pragma once

#include "image/augment/warp.h"

namespace forebay::image {

// Maps positions of the result to positions from -1 to 1 in the picture. Each product and sum is
// rounded by itself.
struct WarpRow {
  std::array<float, 3> across;  // the factors of x and y, and the constant
  std::array<float, 3> down;
  std::array<float, 3> divisor;  // for a projection
  bool projective;
  float first_x;  // the position of a row's first pixel; the others follow in steps of one
  float first_y;
  float y;
  Size picture;

  // Returns the map for row `row` of the result.
  WarpRow at(uint32_t row) const {
    WarpRow out = *this;
    out.y = first_y + static_cast<float>(row);
    return out;
  }
};

// `canvas` is the size of the result.
WarpRow warp_row(const Affine& map, Size size, Size canvas);
WarpRow warp_row(const Projection& map, Size size);

}  // namespace forebay::image
