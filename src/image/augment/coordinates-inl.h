// Computes the positions of the picture that a row of a warp shows. Included once for each
// instruction set of Highway.
#if defined(FOREBAY_IMAGE_AUGMENT_COORDINATES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOREBAY_IMAGE_AUGMENT_COORDINATES_INL_H_
#undef FOREBAY_IMAGE_AUGMENT_COORDINATES_INL_H_
#else
#define FOREBAY_IMAGE_AUGMENT_COORDINATES_INL_H_
#endif

#include <hwy/highway.h>

#include "image/augment/warp_row.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::image::HWY_NAMESPACE {
namespace {

using CoordinateTag = hwy::HWY_NAMESPACE::CappedTag<float, 16>;
using CoordinateVec = hwy::HWY_NAMESPACE::Vec<CoordinateTag>;

HWY_INLINE CoordinateVec set_coordinate(float value) {
  return hwy::HWY_NAMESPACE::Set(CoordinateTag(), value);
}

HWY_INLINE CoordinateVec linear(const std::array<float, 3>& by, CoordinateVec x, float y) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto sum = hn::Add(hn::Mul(x, set_coordinate(by[0])), set_coordinate(y * by[1]));
  return hn::Add(sum, set_coordinate(by[2]));
}

// Converts positions from -1 to 1 into pixels, of which the first is at 0.
HWY_INLINE CoordinateVec to_pixels(CoordinateVec place, uint32_t side) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto scaled =
      hn::Mul(hn::Add(place, set_coordinate(1)), set_coordinate(static_cast<float>(side)));
  return hn::Mul(hn::Sub(scaled, set_coordinate(1)), set_coordinate(0.5F));
}

struct Coordinates {
  CoordinateVec x;
  CoordinateVec y;
};

// Returns the positions in the picture, in pixels, that a vector of pixels from `first` on shows.
HWY_INLINE Coordinates coordinates_of(const WarpRow& row, size_t first) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto x =
      hn::Add(hn::Iota(CoordinateTag(), static_cast<float>(first)), set_coordinate(row.first_x));
  CoordinateVec across = linear(row.across, x, row.y);
  CoordinateVec down = linear(row.down, x, row.y);
  if (row.projective) {
    const auto divisor = linear(row.divisor, x, row.y);
    across = hn::Sub(hn::Div(across, divisor), set_coordinate(1));
    down = hn::Sub(hn::Div(down, divisor), set_coordinate(1));
  }
  return {to_pixels(across, row.picture.width), to_pixels(down, row.picture.height)};
}

}  // namespace
}  // namespace forebay::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOREBAY_IMAGE_AUGMENT_COORDINATES_INL_H_
