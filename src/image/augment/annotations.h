// Boxes and keypoints that move as their picture does, with torchvision v2's results for float32.
#pragma once

#include "image/augment/action.h"

namespace forebay::image {

// Left, top, right and bottom, in pixels from the picture's top left corner.
struct Bounds {
  float left = 0;
  float top = 0;
  float right = 0;
  float bottom = 0;
  bool operator==(const Bounds&) const = default;
};
struct Point {
  float x = 0;
  float y = 0;
  bool operator==(const Point&) const = default;
};

struct Annotations {
  std::vector<Bounds> boxes = {};
  std::vector<Point> points = {};
};

// Moves objects as the cut moves a picture of size `before`. Boxes end at the sides of what is cut;
// points may lie outside of it.
void move(const Cut& cut, Size before, Annotations* objects);
// The same for an action, which is no Blend. Actions that only change colours move nothing.
void move(const Action& action, Size before, Annotations* objects);
// The same for pixels of a stored image of this size, which are turned to be shown. Each point
// stays on its pixel.
void move(const Orientation& orientation, Size stored, Annotations* objects);

// The size of a picture of size `before` after an action.
Size size_after(const Action& action, Size before);

}  // namespace forebay::image
