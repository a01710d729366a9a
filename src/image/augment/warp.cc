// The maps of warp.h. Compiled once for each instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/augment/warp.cc"
#include <hwy/foreach_target.h>
// clang-format off: foreach_target comes first
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cmath>

#include "image/augment/coordinates-inl.h"
#include "image/augment/warp.h"

namespace forebay::image {
#ifndef FOREBAY_IMAGE_AUGMENT_WARP_ONCE
#define FOREBAY_IMAGE_AUGMENT_WARP_ONCE

// A part of the picture with a border of one pixel to the left and above, and of two to the right
// and below. Each pixel is a number whose bytes, from the lowest on, are red, green, blue and
// whether it is inside of the picture (1, or 0 in the border).
struct WarpSource {
  const uint32_t* pixels;  // the first pixel belongs to the border
  size_t stride;
  Rect part;
  bool nearest;
  bool filled;  // whether `fill` is set (WarpOptions::fill)
  std::array<float, 3> fill;
};

// A row that is being made: `width` pixels from column `first` on. Each array has room for whole
// vectors.
struct WarpBuffers {
  uint32_t first;
  uint32_t width;
  uint32_t* numbers;                 // of the upper left of the four pixels around each position
  std::array<float*, 4> weights;     // of these four, line by line
  uint32_t* pixels;                  // the row
  std::array<uint8_t*, 3> channels;  // of the result
};

#endif
}  // namespace forebay::image

HWY_BEFORE_NAMESPACE();
namespace forebay::image::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr CoordinateTag df;
constexpr hn::RebindToSigned<CoordinateTag> d32;
constexpr hn::RebindToUnsigned<CoordinateTag> du32;
using V = CoordinateVec;

HWY_INLINE V set(float value) { return hn::Set(df, value); }

// Moves positions outside the picture's part, and NaN, to the border next to it.
HWY_INLINE V bordered(V place, uint32_t begin, uint32_t side) {
  const V least = set(static_cast<float>(begin) - 1);
  return hn::Min(hn::IfThenElse(hn::Ge(place, least), place, least),
                 set(static_cast<float>(begin + side)));
}
HWY_INLINE Coordinates bordered(const WarpSource& from, const Coordinates& place) {
  return {bordered(place.x, from.part.x, from.part.width),
          bordered(place.y, from.part.y, from.part.height)};
}

// Returns the number of the pixel at a whole position, counted from the source's first pixel.
HWY_INLINE auto number_of(const WarpSource& from, V x, V y) {
  const auto offset = [](uint32_t begin)
                          HWY_ATTR { return hn::Set(d32, 1 - static_cast<int32_t>(begin)); };
  const auto line = hn::Add(hn::ConvertTo(d32, y), offset(from.part.y));
  const auto column = hn::Add(hn::ConvertTo(d32, x), offset(from.part.x));
  return hn::Add(hn::Mul(line, hn::Set(d32, static_cast<int32_t>(from.stride))), column);
}

void show_nearest(const WarpRow& row, const WarpSource& from, const WarpBuffers& room) {
  for (size_t i = 0; i < room.width; i += hn::Lanes(df)) {
    const Coordinates place = coordinates_of(row, room.first + i);
    const auto [x, y] = bordered(from, {hn::Round(place.x), hn::Round(place.y)});
    const auto pixels = hn::GatherIndex(du32, from.pixels, number_of(from, x, y));
    hn::StoreU(pixels, du32, room.pixels + i);
  }
}

void find_neighbours(const WarpRow& row, const WarpSource& from, const WarpBuffers& room) {
  for (size_t i = 0; i < room.width; i += hn::Lanes(df)) {
    const auto [x, y] = bordered(from, coordinates_of(row, room.first + i));
    const V left = hn::Floor(x);
    const V top = hn::Floor(y);
    hn::StoreU(hn::BitCast(du32, number_of(from, left, top)), du32, room.numbers + i);
    const std::array<V, 2> across{hn::Sub(hn::Add(left, set(1)), x), hn::Sub(x, left)};
    const std::array<V, 2> down{hn::Sub(hn::Add(top, set(1)), y), hn::Sub(y, top)};
    for (size_t n = 0; n < 4; ++n) {
      hn::StoreU(hn::Mul(across[n % 2], down[n / 2]), df, room.weights[n] + i);
    }
  }
}

// A pixel's four bytes as float32 numbers.
using DP = hn::FixedTag<float, 4>;
using VP = hn::Vec<DP>;
constexpr DP dp;
constexpr hn::RebindToSigned<DP> dp32;
constexpr hn::Rebind<uint8_t, DP> dp8;

HWY_INLINE VP pixel_at(const uint32_t* pixel) {
  const auto bytes = hn::LoadU(dp8, reinterpret_cast<const uint8_t*>(pixel));
  return hn::ConvertTo(dp, hn::PromoteTo(dp32, bytes));
}

template <bool kFilled>
void interpolate(const WarpSource& from, const WarpBuffers& room) {
  alignas(16) const float fill_levels[4] = {from.fill[0], from.fill[1], from.fill[2], 0};
  const VP fill = hn::Load(dp, fill_levels);
  const std::array<size_t, 4> steps{0, 1, from.stride, from.stride + 1};
  for (size_t i = 0; i < room.width; ++i) {
    const uint32_t* const pixel = from.pixels + room.numbers[i];
    VP sum = hn::Mul(pixel_at(pixel), hn::Set(dp, room.weights[0][i]));
    for (size_t n = 1; n < 4; ++n) {
      const VP weight = hn::Set(dp, room.weights[n][i]);
      sum = hn::Add(sum, hn::Mul(pixel_at(pixel + steps[n]), weight));
    }
    if constexpr (kFilled) {
      // A pixel that is partly outside fades twice, like torchvision's.
      sum = hn::Add(hn::Mul(hn::Sub(sum, fill), hn::Broadcast<3>(sum)), fill);
    }
    const auto levels = hn::DemoteTo(dp8, hn::NearestInt(sum));
    hn::StoreU(levels, dp8, reinterpret_cast<uint8_t*>(room.pixels + i));
  }
}

void show(const WarpRow& row, const WarpSource& from, const WarpBuffers& room) {
  if (from.nearest) {
    show_nearest(row, from, room);
  } else {
    find_neighbours(row, from, room);
    from.filled ? interpolate<true>(from, room) : interpolate<false>(from, room);
  }
  const hn::CappedTag<uint8_t, base::kPlanarPadding> d;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(room.pixels);
  for (size_t x = 0; x < room.width; x += hn::Lanes(d)) {
    auto red = hn::Zero(d);
    auto green = red;
    auto blue = red;
    auto inside = red;
    hn::LoadInterleaved4(d, bytes + 4 * x, red, green, blue, inside);
    hn::StoreU(red, d, room.channels[0] + x);
    hn::StoreU(green, d, room.channels[1] + x);
    hn::StoreU(blue, d, room.channels[2] + x);
  }
}

// Interleaves the channels of a row, in whole vectors.
void interleave(const PlanarRow& row, size_t width, uint32_t* to) {
  const hn::CappedTag<uint8_t, base::kPlanarPadding> d;
  auto* const bytes = reinterpret_cast<uint8_t*>(to);
  for (size_t x = 0; x < width; x += hn::Lanes(d)) {
    hn::StoreInterleaved4(hn::LoadU(d, row[0] + x), hn::LoadU(d, row[1] + x),
                          hn::LoadU(d, row[2] + x), hn::Set(d, 1), d, bytes + 4 * x);
  }
}

}  // namespace
}  // namespace forebay::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forebay::image {

HWY_EXPORT(show);
HWY_EXPORT(interleave);

namespace {

// Returns a colour as a pixel of WarpSource.
uint32_t packed(const std::array<float, 3>& colour) {
  const auto byte = [&](size_t channel) {
    return static_cast<uint32_t>(std::nearbyint(colour[channel]));
  };
  return byte(0) | byte(1) << 8 | byte(2) << 16;
}

// Interleaving writes whole vectors.
size_t source_stride(const Picture& from) { return from.stride() + 3; }

}  // namespace

// Puts a border around the picture.
void Warper::fill_source(const Picture& from, uint32_t border) {
  const Size size = from.size();
  const size_t stride = source_stride(from);
  pixels_.resize(stride * (size.height + 3));
  uint32_t* const first = pixels_.data();
  std::fill_n(first, stride, border);
  std::fill_n(first + stride * (size.height + 1), 2 * stride, border);
  for (uint32_t y = 0; y < size.height; ++y) {
    uint32_t* const row = first + stride * (y + 1);
    row[0] = border;
    HWY_DYNAMIC_DISPATCH(interleave)(from.rows(y), size.width, row + 1);
    row[1 + size.width] = border;
    row[2 + size.width] = border;
  }
}

void Warper::warp_rows(const Picture& from, const WarpRow& map, const WarpOptions& options,
                       const WarpWindow& window, Picture* to) {
  const Rect& made = window.result;
  to->reset({made.width, made.height});
  WarpSource source{.pixels = nullptr,
                    .stride = source_stride(from),
                    .part = window.source,
                    .nearest = options.interpolation == Interpolation::kNearest,
                    .filled = options.fill.has_value(),
                    .fill = options.fill.value_or(std::array<float, 3>{})};
  fill_source(from, source.nearest ? packed(source.fill) : 0);
  source.pixels = pixels_.data();
  numbers_.resize(2 * to->stride());
  weights_.resize(4 * to->stride());
  WarpBuffers room{.first = made.x,
                   .width = made.width,
                   .numbers = numbers_.data(),
                   .weights = {},
                   .pixels = numbers_.data() + to->stride(),
                   .channels = {}};
  for (size_t n = 0; n < 4; ++n) room.weights[n] = weights_.data() + n * to->stride();
  for (uint32_t y = 0; y < made.height; ++y) {
    room.channels = {to->row(0, y), to->row(1, y), to->row(2, y)};
    HWY_DYNAMIC_DISPATCH(show)(map.at(made.y + y), source, room);
  }
}

void Warper::warp(const Picture& from, const Affine& map, const WarpOptions& options,
                  const WarpWindow& window, Size canvas, Picture* to) {
  warp_rows(from, warp_row(map, window.picture, canvas), options, window, to);
}

void Warper::warp(const Picture& from, const Projection& map, const WarpOptions& options,
                  const WarpWindow& window, Picture* to) {
  warp_rows(from, warp_row(map, window.picture), options, window, to);
}

}  // namespace forebay::image
#endif  // HWY_ONCE
