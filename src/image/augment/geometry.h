// Makes the maps of warp.h from angles and corners, like torchvision. The same bits on any machine.
#pragma once

#include "image/augment/warp.h"

namespace forebay::image {

struct SinCos {
  double sin;
  double cos;
};
// Accurate to some units in the last place, for any finite angle.
SinCos sin_cos(double degrees);

// A picture that is sheared, turned clockwise, scaled and moved, in this order.
struct AffineParts {
  double degrees = 0;
  std::array<double, 2> translate = {0, 0};  // pixels to the right and down
  double scale = 1;
  std::array<double, 2> shear = {0, 0};   // the tangents of the angles along x and y
  std::array<double, 2> centre = {0, 0};  // what stays where it is, from the picture's middle
};
Affine affine_map(const AffineParts& parts);

// The part of a picture that a part of what a map makes of it depends on, at least one pixel.
Rect part_shown(const Affine& map, Size picture, const Rect& result);
Rect part_shown(const Projection& map, Size picture, const Rect& result);

using Corners = std::array<std::array<double, 2>, 4>;  // x, y
// The map after which `from` of the picture are shown at `to`. The identity where there is none.
Projection projection_of(const Corners& from, const Corners& to);

}  // namespace forebay::image
