// Makes the maps of warp.h from angles and corners, like torchvision, with the same bits on any
// machine.
#pragma once

#include "image/augment/warp.h"

namespace forebay::image {

struct SinCos {
  double sin;
  double cos;
};
// Accurate to a few units in the last place, for any finite angle.
SinCos sin_cos(double degrees);

// A picture that is sheared, turned clockwise, scaled and moved, in this order.
struct AffineParts {
  double degrees = 0;
  std::array<double, 2> translate = {0, 0};  // pixels to the right and down
  double scale = 1;
  std::array<double, 2> shear = {0, 0};   // the tangents of the angles along x and y
  std::array<double, 2> centre = {0, 0};  // the fixed point, from the picture's middle
};
Affine affine_map(const AffineParts& parts);

// Returns the size of the picture's smallest frame after an affine map, like torchvision's rotate()
// with expand.
Size size_around(const Affine& map, Size picture);

// Returns the part of a picture, at least one pixel, that `result`, a part of the warped picture,
// depends on. `canvas` is the size of the whole warped picture.
Rect part_shown(const Affine& map, Size picture, Size canvas, const Rect& result);
Rect part_shown(const Projection& map, Size picture, const Rect& result);

using Corners = std::array<std::array<double, 2>, 4>;  // x, y
// Returns the map that shows the picture's corners `from` at `to`, or the identity if there is no
// such map.
Projection projection_of(const Corners& from, const Corners& to);

}  // namespace forebay::image
