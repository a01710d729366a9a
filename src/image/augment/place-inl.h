// The places that a row of a warp shows. Included once for each instruction set of Highway.
#if defined(FOREBAY_IMAGE_AUGMENT_PLACE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOREBAY_IMAGE_AUGMENT_PLACE_INL_H_
#undef FOREBAY_IMAGE_AUGMENT_PLACE_INL_H_
#else
#define FOREBAY_IMAGE_AUGMENT_PLACE_INL_H_
#endif

#include <hwy/highway.h>

#include "image/augment/warp_row.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::image::HWY_NAMESPACE {
namespace {

using PlaceTag = hwy::HWY_NAMESPACE::CappedTag<float, 16>;
using PlaceVec = hwy::HWY_NAMESPACE::Vec<PlaceTag>;

HWY_INLINE PlaceVec set_place(float value) { return hwy::HWY_NAMESPACE::Set(PlaceTag(), value); }

HWY_INLINE PlaceVec linear(const std::array<float, 3>& by, PlaceVec x, float y) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto sum = hn::Add(hn::Mul(x, set_place(by[0])), set_place(y * by[1]));
  return hn::Add(sum, set_place(by[2]));
}

// From -1 to 1 to pixels of which the first is at 0.
HWY_INLINE PlaceVec to_pixels(PlaceVec place, uint32_t side) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto scaled = hn::Mul(hn::Add(place, set_place(1)), set_place(static_cast<float>(side)));
  return hn::Mul(hn::Sub(scaled, set_place(1)), set_place(0.5F));
}

struct Place {
  PlaceVec x;
  PlaceVec y;
};

// Which places of the picture, in pixels, a vector of pixels from the `first` on shows.
HWY_INLINE Place place_of(const WarpRow& row, size_t first) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto x = hn::Add(hn::Iota(PlaceTag(), static_cast<float>(first)), set_place(row.first_x));
  PlaceVec across = linear(row.across, x, row.y);
  PlaceVec down = linear(row.down, x, row.y);
  if (row.projective) {
    const auto divisor = linear(row.divisor, x, row.y);
    across = hn::Sub(hn::Div(across, divisor), set_place(1));
    down = hn::Sub(hn::Div(down, divisor), set_place(1));
  }
  return {to_pixels(across, row.picture.width), to_pixels(down, row.picture.height)};
}

}  // namespace
}  // namespace forebay::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOREBAY_IMAGE_AUGMENT_PLACE_INL_H_
