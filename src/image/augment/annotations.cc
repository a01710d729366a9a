#include "image/augment/annotations.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace forebay::image {
namespace {

void clamp(Size size, Annotations* objects) {
  const auto right = static_cast<float>(size.width);
  const auto bottom = static_cast<float>(size.height);
  for (Bounds& box : objects->boxes) {
    box.left = std::clamp(box.left, 0.0F, right);
    box.top = std::clamp(box.top, 0.0F, bottom);
    box.right = std::clamp(box.right, 0.0F, right);
    box.bottom = std::clamp(box.bottom, 0.0F, bottom);
  }
}

void shift(double x, double y, Annotations* objects) {
  const auto left = static_cast<float>(x);
  const auto top = static_cast<float>(y);
  for (Bounds& box : objects->boxes) {
    box = {box.left - left, box.top - top, box.right - left, box.bottom - top};
  }
  for (Point& point : objects->points) point = {point.x - left, point.y - top, point.visibility};
}

void scale(Size from, Size to, Annotations* objects) {
  if (from == to) return;
  const auto across = static_cast<float>(double{1} * to.width / from.width);
  const auto down = static_cast<float>(double{1} * to.height / from.height);
  for (Bounds& box : objects->boxes) {
    box = {box.left * across, box.top * down, box.right * across, box.bottom * down};
  }
  for (Point& point : objects->points) {
    point = {point.x * across, point.y * down, point.visibility};
  }
}

// Maps positions in pixels from the top left corner.
struct Map {
  std::array<float, 3> x;
  std::array<float, 3> y;
  std::array<float, 3> divisor = {0, 0, 1};

  Point operator()(float from_x, float from_y) const {
    const auto sum = [&](const std::array<float, 3>& m) {
      return m[0] * from_x + m[1] * from_y + m[2];
    };
    const float by = sum(divisor);
    return {sum(x) / by, sum(y) / by};
  }
};

std::array<float, 3> as_floats(double a, double b, double c) {
  return {static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)};
}

// Inverts a warp's map, which says what each position of the result shows: returns where each
// position of the picture goes. For a singular map, which has no inverse, returns the identity.
Map inverse(const Affine& map, Size size) {
  const auto& m = map.m;
  const double determinant = m[0] * m[4] - m[1] * m[3];
  if (determinant == 0) return {{1, 0, 0}, {0, 1, 0}};
  const double a = m[4] / determinant;
  const double b = -m[1] / determinant;
  const double c = -m[3] / determinant;
  const double d = m[0] / determinant;
  const double x = size.width * 0.5;
  const double y = size.height * 0.5;
  return {as_floats(a, b, x - a * (x + m[2]) - b * (y + m[5])),
          as_floats(c, d, y - c * (x + m[2]) - d * (y + m[5]))};
}

Map inverse(const Projection& map) {
  const auto& m = map.m;
  const double determinant = m[0] * m[4] - m[1] * m[3];
  if (determinant == 0) return {{1, 0, 0}, {0, 1, 0}};
  const auto row = [&](double a, double b, double c) {
    return as_floats(a / determinant, b / determinant, c / determinant);
  };
  Map out{row(m[4] - m[5] * m[7], -m[1] + m[2] * m[7], m[1] * m[5] - m[2] * m[4]),
          row(-m[3] + m[5] * m[6], m[0] - m[2] * m[6], -m[0] * m[5] + m[2] * m[3]),
          row(-m[4] * m[6] + m[3] * m[7], -m[0] * m[7] + m[1] * m[6], 0)};
  out.divisor[2] = 1;
  return out;
}

void apply(const Map& map, Size after, Annotations* objects) {
  for (Bounds& box : objects->boxes) {
    constexpr float kFar = std::numeric_limits<float>::infinity();
    Bounds out{kFar, kFar, -kFar, -kFar};
    for (const Point& at : {Point{box.left, box.top}, Point{box.right, box.top},
                            Point{box.right, box.bottom}, Point{box.left, box.bottom}}) {
      const Point corner = map(at.x, at.y);
      out = {std::min(out.left, corner.x), std::min(out.top, corner.y),
             std::max(out.right, corner.x), std::max(out.bottom, corner.y)};
    }
    box = out;
  }
  for (Point& point : objects->points) {
    const Point to = map(point.x, point.y);
    point = {to.x, to.y, point.visibility};
  }
  clamp(after, objects);
}

// Moves the results of a map so that the picture's leftmost and uppermost corners lie at 0, which
// is where torchvision has boxes and points after a rotation with expand.
void move_to_corner(Size picture, Map* map) {
  const auto width = static_cast<float>(picture.width);
  const auto height = static_cast<float>(picture.height);
  Point least{std::numeric_limits<float>::infinity(), std::numeric_limits<float>::infinity()};
  for (const Point& at : {Point{0, 0}, Point{0, height}, Point{width, height}, Point{width, 0}}) {
    const Point corner = (*map)(at.x, at.y);
    least = {std::min(least.x, corner.x), std::min(least.y, corner.y)};
  }
  map->x[2] -= least.x;
  map->y[2] -= least.y;
}

void mirror(const Flip& flip, Size size, Annotations* objects) {
  const auto width = static_cast<float>(size.width);
  const auto height = static_cast<float>(size.height);
  for (Bounds& box : objects->boxes) {
    if (flip.across) box = {width - box.right, box.top, width - box.left, box.bottom};
    if (flip.down) box = {box.left, height - box.bottom, box.right, height - box.top};
  }
  // Points are coordinates of pixels, which are counted from 0.
  for (Point& point : objects->points) {
    if (flip.across) point.x = width - 1 - point.x;
    if (flip.down) point.y = height - 1 - point.y;
  }
}

void swap_pairs(Annotations* objects) {
  if (objects->pairs.empty()) return;
  for (size_t first = 0; first < objects->points.size(); first += objects->points_each) {
    for (const auto& [left, right] : objects->pairs) {
      std::swap(objects->points[first + left], objects->points[first + right]);
    }
  }
}

struct Mover {
  Size size;
  Annotations* objects;

  template <class Other>
  void operator()(const Other&) const {}
  void operator()(const Cut& cut) const { move(cut, size, objects); }
  void operator()(const Flip& flip) const {
    mirror(flip, size, objects);
    if (flip.across != flip.down) swap_pairs(objects);  // both are half a turn
  }
  void operator()(const QuarterTurns& turns) const {
    for (uint32_t i = 0; i < turns.count; ++i) {
      const auto width = static_cast<float>(i % 2 == 0 ? size.width : size.height);
      for (Bounds& box : objects->boxes) {
        box = {box.top, width - box.right, box.bottom, width - box.left};
      }
      for (Point& point : objects->points) point = {point.y, width - point.x, point.visibility};
    }
    clamp(size_after(turns, size), objects);
  }
  void operator()(const AffineWarp& warp) const {
    Map map = inverse(warp.map, size);
    if (warp.canvas) move_to_corner(size, &map);
    apply(map, warp.canvas.value_or(size), objects);
  }
  void operator()(const Perspective& warp) const { apply(inverse(warp.map), size, objects); }
};

}  // namespace

void move(const Cut& cut, Size before, Annotations* objects) {
  if (cut.outside) {
    const auto& [image, viewport, border] = *cut.outside;
    scale(before, image, objects);
    shift(static_cast<double>(viewport.x), static_cast<double>(viewport.y), objects);
    clamp(viewport.size, objects);
    return;
  }
  const Rect& region = cut.region;
  if (region != whole(before)) {
    shift(region.x, region.y, objects);
    clamp({region.width, region.height}, objects);
  }
  scale({region.width, region.height}, cut.resized, objects);
  if (cut.kept != whole(cut.resized)) {
    shift(cut.kept.x, cut.kept.y, objects);
    clamp(cut.size(), objects);
  }
}

void move(const Action& action, Size before, Annotations* objects) {
  std::visit(Mover{before, objects}, action);
}

void move(const Orientation& orientation, Size stored, Annotations* objects) {
  mirror(Flip{orientation.across, orientation.down}, stored, objects);
  if (!orientation.transposed) return;
  for (Bounds& box : objects->boxes) box = {box.top, box.left, box.bottom, box.right};
  for (Point& point : objects->points) std::swap(point.x, point.y);
}

Size size_after(const Action& action, Size before) {
  if (const auto* const cut = std::get_if<Cut>(&action)) return cut->size();
  if (const auto* const warp = std::get_if<AffineWarp>(&action)) {
    return warp->canvas.value_or(before);
  }
  const auto* const turns = std::get_if<QuarterTurns>(&action);
  const bool swapped = turns != nullptr && turns->count % 2 == 1;
  return swapped ? Size{before.height, before.width} : before;
}

}  // namespace forebay::image
