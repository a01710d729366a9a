// The steps of colour.h. Compiled once for each instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/augment/colour.cc"
#include <hwy/foreach_target.h>
// clang-format off: foreach_target comes first
#include <hwy/highway.h>
// clang-format on

#include "image/augment/colour.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::image::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Vectors of numbers and of bytes for the same pixels; a row has room for whole vectors.
using DF = hn::CappedTag<float, 16>;
using D32 = hn::RebindToSigned<DF>;
using D8 = hn::Rebind<uint8_t, DF>;
constexpr DF df;
constexpr D32 d32;
constexpr D8 d8;
using V = hn::Vec<DF>;
using Rgb = std::array<V, 3>;

HWY_INLINE V set(float value) { return hn::Set(df, value); }

HWY_INLINE Rgb load(const PlanarRow& row, size_t x) {
  Rgb out;
  for (size_t channel = 0; channel < 3; ++channel) {
    out[channel] = hn::ConvertTo(df, hn::PromoteTo(d32, hn::LoadU(d8, row[channel] + x)));
  }
  return out;
}

// Stores the numbers rounded down. `value` is at least 0.
HWY_INLINE void store(V value, uint8_t* to) {
  hn::StoreU(hn::DemoteTo(d8, hn::ConvertTo(d32, value)), d8, to);
}

HWY_INLINE V grey_of(const Rgb& rgb) {
  const V sum = hn::MulAdd(rgb[1], set(0.587F), hn::Mul(rgb[0], set(0.2989F)));
  return hn::Floor(hn::MulAdd(rgb[2], set(0.114F), sum));
}

// Replaces all pixels by the results of change(rgb), which must be at least 0.
template <class Change>
HWY_INLINE void change_all(Picture* picture, const Change& change) {
  const Size size = picture->size();
  for (uint32_t y = 0; y < size.height; ++y) {
    for (size_t x = 0; x < size.width; x += hn::Lanes(df)) {
      const Rgb made = change(load(picture->rows(y), x));
      for (size_t c = 0; c < 3; ++c) store(made[c], picture->row(c, y) + x);
    }
  }
}

uint64_t grey_sum(const Picture& picture) {
  const Size size = picture.size();
  uint64_t out = 0;
  for (uint32_t y = 0; y < size.height; ++y) {
    auto sum = hn::Zero(d32);
    size_t x = 0;
    for (; x + hn::Lanes(df) <= size.width; x += hn::Lanes(df)) {
      sum = hn::Add(sum, hn::ConvertTo(d32, grey_of(load(picture.rows(y), x))));
    }
    if (x < size.width) {
      const auto rest = hn::FirstN(d32, size.width - x);
      const auto grey = hn::ConvertTo(d32, grey_of(load(picture.rows(y), x)));
      sum = hn::Add(sum, hn::IfThenElseZero(rest, grey));
    }
    out += static_cast<uint64_t>(hn::GetLane(hn::SumOfLanes(d32, sum)));
  }
  return out;
}

void make_grey(Picture* picture) {
  change_all(picture, [](const Rgb& rgb) {
    const V grey = grey_of(rgb);
    return Rgb{grey, grey, grey};
  });
}

void saturate(float own, float rest, Picture* picture) {
  const V by = set(own);
  const V of_grey = set(rest);
  change_all(picture, [&](const Rgb& rgb) {
    const V grey = grey_of(rgb);
    Rgb out;
    for (size_t c = 0; c < 3; ++c) {
      const V sum = hn::MulAdd(grey, of_grey, hn::Mul(rgb[c], by));
      out[c] = hn::Min(hn::Max(sum, hn::Zero(df)), set(255));
    }
    return out;
  });
}

struct Hsv {
  V h, s, v;  // from 0 to 1
};

// The operations and their order are torchvision's, so that roundings are the same.
HWY_INLINE Hsv to_hsv(const Rgb& rgb) {
  const V one = set(1);
  const V most = hn::Max(hn::Max(rgb[0], rgb[1]), rgb[2]);
  const V least = hn::Min(hn::Min(rgb[0], rgb[1]), rgb[2]);
  const auto grey = hn::Eq(most, least);
  const V range = hn::Sub(most, least);
  const V divisor = hn::IfThenElse(grey, one, range);
  const auto red = hn::Eq(most, rgb[0]);
  const auto green = hn::Eq(most, rgb[1]);
  const auto choose = [&](V for_red, V for_green, V for_blue) HWY_ATTR {
    return hn::IfThenElse(red, for_red, hn::IfThenElse(green, for_green, for_blue));
  };
  // How far two other channels are below the largest one, as shares of the range.
  const V first = hn::Div(hn::Sub(most, choose(rgb[2], rgb[0], rgb[1])), divisor);
  const V second = hn::Div(hn::Sub(most, choose(rgb[1], rgb[2], rgb[0])), divisor);
  const V sixths = hn::Sub(hn::Add(first, choose(hn::Zero(df), set(2), set(4))), second);
  const V turned = hn::Add(hn::Mul(sixths, set(1.0F / 6)), one);
  const V h = hn::IfThenElse(hn::Ge(turned, one), hn::Sub(turned, one), turned);
  return {h, hn::Div(range, hn::IfThenElse(grey, one, most)), most};
}

HWY_INLINE V zero_to_one(V value) { return hn::Min(hn::Max(value, hn::Zero(df)), set(1)); }

HWY_INLINE Rgb to_rgb(const Hsv& hsv) {
  const V one = set(1);
  const V sixths = hn::Mul(hsv.h, set(6));
  const V whole = hn::Floor(sixths);
  const V part = hn::Sub(sixths, whole);
  const V scaled = hn::Mul(hsv.s, part);
  const V unsaturated = hn::Sub(one, hsv.s);
  const V falling = zero_to_one(hn::Mul(hn::Sub(one, scaled), hsv.v));
  const V rising = zero_to_one(hn::Mul(hn::Add(scaled, unsaturated), hsv.v));
  const V low = zero_to_one(hn::Mul(unsaturated, hsv.v));
  const V high = hsv.v;
  // In the six sixths of the turn, red is high, falling, low, low, rising, high. Green and blue
  // follow two and four sixths later. A full turn is like no turn.
  const auto in = [&](float sixth) HWY_ATTR { return hn::Eq(whole, set(sixth)); };
  const auto second = in(1);
  const auto third = in(2);
  const auto fourth = in(3);
  const auto fifth = in(4);
  const auto sixth = in(5);
  const auto one_of = [](auto a, auto b) HWY_ATTR { return hn::Or(a, b); };
  const auto first = hn::Not(one_of(one_of(second, third), one_of(one_of(fourth, fifth), sixth)));
  const auto channel = [&](auto rises, auto falls, auto is_low) HWY_ATTR {
    const V flat = hn::IfThenElse(is_low, low, high);
    return hn::IfThenElse(rises, rising, hn::IfThenElse(falls, falling, flat));
  };
  return {channel(fifth, second, one_of(third, fourth)),
          channel(first, fourth, one_of(fifth, sixth)),
          channel(third, sixth, one_of(first, second))};
}

void shift_hue(float shift, Picture* picture) {
  const V by = set(shift);
  change_all(picture, [&](const Rgb& rgb) {
    Rgb parts;
    for (size_t c = 0; c < 3; ++c) parts[c] = hn::Mul(rgb[c], set(1.0F / 255));
    Hsv hsv = to_hsv(parts);
    const V turned = hn::Add(hsv.h, by);
    const V once = hn::IfThenElse(hn::Ge(turned, set(1)), hn::Sub(turned, set(1)), turned);
    hsv.h = hn::IfThenElse(hn::Lt(once, hn::Zero(df)), hn::Add(once, set(1)), once);
    Rgb out = to_rgb(hsv);
    for (V& value : out) value = hn::Mul(value, set(255.999F));
    return out;
  });
}

}  // namespace
}  // namespace forebay::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forebay::image {

HWY_EXPORT(grey_sum);
HWY_EXPORT(make_grey);
HWY_EXPORT(saturate);
HWY_EXPORT(shift_hue);

float grey_mean(const Picture& picture) {
  const double pixels = static_cast<double>(picture.size().width) * picture.size().height;
  return static_cast<float>(static_cast<double>(HWY_DYNAMIC_DISPATCH(grey_sum)(picture)) / pixels);
}

void make_grey(Picture* picture) { HWY_DYNAMIC_DISPATCH(make_grey)(picture); }

void saturate(double factor, Picture* picture) {
  HWY_DYNAMIC_DISPATCH(saturate)
  (static_cast<float>(factor), static_cast<float>(1 - factor), picture);
}

void shift_hue(double shift, Picture* picture) {
  HWY_DYNAMIC_DISPATCH(shift_hue)(static_cast<float>(shift), picture);
}

}  // namespace forebay::image
#endif  // HWY_ONCE
