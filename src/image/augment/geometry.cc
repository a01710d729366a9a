#include "image/augment/geometry.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace forebay::image {
namespace {

// Taylor series, for angles up to an eighth of a turn.
double sin_of(double x) {
  double sum = 0;
  for (int n = 19; n >= 3; n -= 2) sum = -(sum + 1) * (x * x / (n * (n - 1)));
  return x + x * sum;
}

double cos_of(double x) {
  double sum = 0;
  for (int n = 20; n >= 2; n -= 2) sum = -(sum + 1) * (x * x / (n * (n - 1)));
  return 1 + sum;
}

struct Interval {
  uint32_t begin;
  uint32_t count;
};

// Returns the pixels of a side that lie around the positions from `least` to `most`.
Interval around(double least, double most, uint32_t side) {
  // More than the error of PyTorch's positions, which are float32.
  const double margin = 0.02 + 1e-6 * side;
  const auto pixel = [&](double place) {
    return static_cast<uint32_t>(std::clamp(std::floor(place), 0.0, side - 1.0));
  };
  const uint32_t begin = pixel(least - margin);
  return {begin, pixel(most + margin + 1) - begin + 1};
}

// `coordinates_of` returns the position in the picture, in pixels, that the middle of a pixel of
// the result shows.
template <class PlaceOf>
Rect around_corners(Size picture, const Rect& result, const PlaceOf& coordinates_of) {
  const std::array<double, 2> columns{double{1} * result.x, result.x + result.width - 1.0};
  const std::array<double, 2> lines{double{1} * result.y, result.y + result.height - 1.0};
  std::array<double, 4> x{};
  std::array<double, 4> y{};
  for (size_t i = 0; i < 4; ++i) {
    const auto place = coordinates_of(columns[i % 2], lines[i / 2]);
    if (!std::isfinite(place[0]) || !std::isfinite(place[1])) return whole(picture);
    x[i] = place[0];
    y[i] = place[1];
  }
  const auto [left, right] = std::ranges::minmax(x);
  const auto [top, bottom] = std::ranges::minmax(y);
  const Interval across = around(left, right, picture.width);
  const Interval down = around(top, bottom, picture.height);
  return {across.begin, down.begin, across.count, down.count};
}

}  // namespace

// torchvision computes the corners in float32, and cuts off what is below 0.0001 pixels, so that a
// rounding error adds no column.
Size size_around(const Affine& map, Size picture) {
  const auto count = [&](double across, double down, uint32_t side) {
    const float half = static_cast<float>(side) * 0.5F;
    const float x = static_cast<float>(picture.width) * 0.5F * static_cast<float>(across);
    const float y = static_cast<float>(picture.height) * 0.5F * static_cast<float>(down);
    const float reach = std::max(std::abs(x + y), std::abs(x - y));
    const auto cut = [](float place) { return std::trunc(place * 1e4F) * 1e-4F; };
    return std::ceil(cut(half + reach)) - std::floor(cut(half - reach));
  };
  const auto& m = map.m;
  return {static_cast<uint32_t>(count(m[0], m[1], picture.width)),
          static_cast<uint32_t>(count(m[3], m[4], picture.height))};
}

Rect part_shown(const Affine& map, Size picture, Size canvas, const Rect& result) {
  const auto& m = map.m;
  const double middle_x = (picture.width - 1) * 0.5;
  const double middle_y = (picture.height - 1) * 0.5;
  return around_corners(picture, result, [&](double column, double line) {
    const double x = column - (canvas.width - 1) * 0.5;
    const double y = line - (canvas.height - 1) * 0.5;
    return std::array<double, 2>{m[0] * x + m[1] * y + m[2] + middle_x,
                                 m[3] * x + m[4] * y + m[5] + middle_y};
  });
}

// If the divisor is positive at all corners, it is also positive between them, and straight lines
// stay straight.
Rect part_shown(const Projection& map, Size picture, const Rect& result) {
  const auto& m = map.m;
  return around_corners(picture, result, [&](double column, double line) {
    const double x = column + 0.5;
    const double y = line + 0.5;
    const double divisor = m[6] * x + m[7] * y + 1;
    if (!(divisor > 1e-3)) return std::array<double, 2>{INFINITY, INFINITY};
    return std::array<double, 2>{(m[0] * x + m[1] * y + m[2]) / divisor - 0.5,
                                 (m[3] * x + m[4] * y + m[5]) / divisor - 0.5};
  });
}

SinCos sin_cos(double degrees) {
  const double turned = std::fmod(degrees, 360.0);
  const double quarters = std::floor(turned / 90 + 0.5);
  const double x = (turned - quarters * 90) * (std::numbers::pi / 180);
  const double s = sin_of(x);
  const double c = cos_of(x);
  switch ((static_cast<int>(quarters) + 8) % 4) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

// torchvision's map is T C R S Y X C^-1: the centre C goes to the origin and back, X and Y shear
// along x and y, S scales, R turns, and T moves. Its inverse says what each position of the result
// shows.
Affine affine_map(const AffineParts& parts) {
  const auto [sin_turn, cos_turn] = sin_cos(parts.degrees);
  const double tan_x = parts.shear[0];
  const double tan_y = parts.shear[1];
  // cos(r - y) / cos(y) and sin(r - y) / cos(y)
  const double a = cos_turn + sin_turn * tan_y;
  const double c = sin_turn - cos_turn * tan_y;
  const double b = -(a * tan_x + sin_turn);
  const double d = cos_turn - c * tan_x;
  const auto [x, y] = parts.centre;
  const double moved_x = x + parts.translate[0];
  const double moved_y = y + parts.translate[1];
  Affine out{{d / parts.scale, -b / parts.scale, 0, -c / parts.scale, a / parts.scale, 0}};
  out.m[2] = x - out.m[0] * moved_x - out.m[1] * moved_y;
  out.m[5] = y - out.m[3] * moved_x - out.m[4] * moved_y;
  return out;
}

// Each corner gives two linear equations for the eight unknown numbers.
Projection projection_of(const Corners& from, const Corners& to) {
  constexpr size_t kCount = 8;
  std::array<std::array<double, kCount + 1>, kCount> rows{};
  for (size_t i = 0; i < from.size(); ++i) {
    const auto [x, y] = to[i];
    const auto [u, v] = from[i];
    rows[2 * i] = {x, y, 1, 0, 0, 0, -u * x, -u * y, u};
    rows[2 * i + 1] = {0, 0, 0, x, y, 1, -v * x, -v * y, v};
  }
  for (size_t column = 0; column < kCount; ++column) {
    size_t largest = column;
    for (size_t row = column + 1; row < kCount; ++row) {
      if (std::abs(rows[row][column]) > std::abs(rows[largest][column])) largest = row;
    }
    if (std::abs(rows[largest][column]) < 1e-9) return {};
    std::swap(rows[column], rows[largest]);
    for (size_t row = 0; row < kCount; ++row) {
      if (row == column) continue;
      const double factor = rows[row][column] / rows[column][column];
      for (size_t i = column; i <= kCount; ++i) rows[row][i] -= factor * rows[column][i];
    }
  }
  Projection out;
  for (size_t i = 0; i < kCount; ++i) out.m[i] = rows[i][kCount] / rows[i][i];
  return out;
}

}  // namespace forebay::image
