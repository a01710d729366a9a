#include "image/augment/warp_row.h"

namespace forebay::image {
namespace {

// Divides the factors of x and y and the constant by half of a side.
std::array<float, 3> scaled(const double* m, uint32_t side) {
  const auto half = static_cast<float>(side) * 0.5F;
  return {static_cast<float>(m[0]) / half, static_cast<float>(m[1]) / half,
          static_cast<float>(m[2]) / half};
}

}  // namespace

WarpRow warp_row(const Affine& map, Size size, Size canvas) {
  return {.across = scaled(map.m.data(), size.width),
          .down = scaled(map.m.data() + 3, size.height),
          .divisor = {},
          .projective = false,
          .first_x = (1 - static_cast<float>(canvas.width)) * 0.5F,
          .first_y = (1 - static_cast<float>(canvas.height)) * 0.5F,
          .y = 0,
          .picture = size};
}

WarpRow warp_row(const Projection& map, Size size) {
  return {.across = scaled(map.m.data(), size.width),
          .down = scaled(map.m.data() + 3, size.height),
          .divisor = {static_cast<float>(map.m[6]), static_cast<float>(map.m[7]), 1},
          .projective = true,
          .first_x = 0.5F,
          .first_y = 0.5F,
          .y = 0,
          .picture = size};
}

}  // namespace forebay::image
