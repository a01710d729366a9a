// Moves boxes and keypoints with their picture, with torchvision v2's results for float32.
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
  float visibility = 0;  // COCO's, from 0 to 2
  bool operator==(const Point&) const = default;
};
// Two keypoints of an object that change places in a mirrored picture, such as the left and the
// right eye: their numbers among the object's keypoints.
using PointPair = std::array<uint32_t, 2>;

struct Annotations {
  std::vector<Bounds> boxes = {};
  std::vector<Point> points = {};  // points_each for each box
  uint32_t points_each = 0;
  std::vector<PointPair> pairs = {};  // below points_each
};

// Moves annotations like the cut moves a picture of size `before`. Boxes are clipped to the cut;
// points may lie outside it.
void move(const Cut& cut, Size before, Annotations* objects);
// Does the same for an action. A Blend, and actions that only change colours, move nothing.
void move(const Action& action, Size before, Annotations* objects);
// Moves annotations of a stored image of this size to their places in the image as it is shown.
// Each point stays on its pixel, and keeps its number.
void move(const Orientation& orientation, Size stored, Annotations* objects);

// Returns the size of a picture of size `before` after an action.
Size size_after(const Action& action, Size before);

}  // namespace forebay::image
