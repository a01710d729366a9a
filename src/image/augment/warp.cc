// The maps of warp.h. Compiled once for each instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/augment/warp.cc"
#include <hwy/foreach_target.h>
// clang-format off: foreach_target comes first
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cmath>

#include "image/augment/warp.h"

namespace forebay::image {
#ifndef FOREBAY_IMAGE_AUGMENT_WARP_ONCE
#define FOREBAY_IMAGE_AUGMENT_WARP_ONCE

// A map as PyTorch computes it, in float32: places of the result to places from -1 to 1 in the
// picture. Each product and sum is rounded by itself.
struct WarpRow {
  std::array<float, 3> across;  // by x, by y, and what is added
  std::array<float, 3> down;
  std::array<float, 3> divisor;  // for a projection
  bool projective;
  float first_x;  // the place of the row's first pixel; the others follow in steps of one
  float y;
  Size picture;
};

// The picture, its red, green and blue in the bytes of a number for each pixel, from the lowest.
struct WarpSource {
  const uint32_t* pixels;
  size_t stride;
  Size size;
  bool nearest;
  bool filled;  // else black, to which pixels at the sides fade
  std::array<float, 3> fill;
};

#endif
}  // namespace forebay::image

HWY_BEFORE_NAMESPACE();
namespace forebay::image::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using D32 = hn::RebindToSigned<DF>;
using DU32 = hn::RebindToUnsigned<DF>;
using D8 = hn::Rebind<uint8_t, DF>;
constexpr DF df;
constexpr D32 d32;
constexpr DU32 du32;
constexpr D8 d8;
using V = hn::Vec<DF>;
using VU = hn::Vec<DU32>;

HWY_INLINE V set(float value) { return hn::Set(df, value); }

HWY_INLINE V linear(const std::array<float, 3>& by, V x, float y) {
  return hn::Add(hn::Add(hn::Mul(x, set(by[0])), set(y * by[1])), set(by[2]));
}

// From -1 to 1 to pixels of which the first is at 0.
HWY_INLINE V to_pixels(V place, uint32_t side) {
  const V scaled = hn::Mul(hn::Add(place, set(1)), set(static_cast<float>(side)));
  return hn::Mul(hn::Sub(scaled, set(1)), set(0.5F));
}

// Which place of the picture a pixel shows, in pixels.
struct Place {
  V x;
  V y;
};

HWY_INLINE Place place_of(const WarpRow& row, size_t first) {
  const V x = hn::Add(hn::Iota(df, static_cast<float>(first)), set(row.first_x));
  V across = linear(row.across, x, row.y);
  V down = linear(row.down, x, row.y);
  if (row.projective) {
    const V divisor = linear(row.divisor, x, row.y);
    across = hn::Sub(hn::Div(across, divisor), set(1));
    down = hn::Sub(hn::Div(down, divisor), set(1));
  }
  return {to_pixels(across, row.picture.width), to_pixels(down, row.picture.height)};
}

// Pixels at whole places, and which of them are inside of the picture.
struct Found {
  VU pixels;
  hn::Mask<DF> inside;
};

HWY_INLINE Found find(const WarpSource& from, const Place& at) {
  const V width = set(static_cast<float>(from.size.width));
  const V height = set(static_cast<float>(from.size.height));
  const auto inside = hn::And(hn::And(hn::Ge(at.x, hn::Zero(df)), hn::Lt(at.x, width)),
                              hn::And(hn::Ge(at.y, hn::Zero(df)), hn::Lt(at.y, height)));
  const auto column = hn::ConvertTo(d32, hn::IfThenElseZero(inside, at.x));
  const auto line = hn::ConvertTo(d32, hn::IfThenElseZero(inside, at.y));
  const auto stride = hn::Set(d32, static_cast<int32_t>(from.stride));
  return {hn::GatherIndex(du32, from.pixels, hn::Add(hn::Mul(line, stride), column)), inside};
}

template <int kChannel>
HWY_INLINE VU channel_of(VU pixels) {
  return hn::And(hn::ShiftRight<8 * kChannel>(pixels), hn::Set(du32, 0xff));
}

HWY_INLINE void store(VU levels, uint8_t* to) { hn::StoreU(hn::U8FromU32(levels), d8, to); }

using Rows = std::array<uint8_t*, 3>;

void show_nearest(const WarpRow& row, const WarpSource& from, size_t width, const Rows& to) {
  const auto byte = [&](size_t channel) { return static_cast<uint32_t>(from.fill[channel]); };
  const VU outside = hn::Set(du32, byte(0) | byte(1) << 8 | byte(2) << 16);
  for (size_t i = 0; i < width; i += hn::Lanes(df)) {
    const Place place = place_of(row, i);
    const Found found = find(from, {hn::Round(place.x), hn::Round(place.y)});
    const VU shown = hn::IfThenElse(hn::RebindMask(du32, found.inside), found.pixels, outside);
    store(channel_of<0>(shown), to[0] + i);
    store(channel_of<1>(shown), to[1] + i);
    store(channel_of<2>(shown), to[2] + i);
  }
}

// The four pixels around a place, and their weights by its distances from them. A weight is zero
// outside of the picture.
struct Neighbours {
  std::array<VU, 4> pixels;
  std::array<V, 4> weights;
  V inside;  // the sum of the weights
};

HWY_INLINE Neighbours neighbours_of(const WarpSource& from, const Place& place) {
  // Places that are far outside become some place outside, so that they fit into integers.
  const V x = hn::Min(hn::Max(place.x, set(-2)), set(static_cast<float>(from.size.width) + 1));
  const V y = hn::Min(hn::Max(place.y, set(-2)), set(static_cast<float>(from.size.height) + 1));
  const std::array<V, 2> columns{hn::Floor(x), hn::Add(hn::Floor(x), set(1))};
  const std::array<V, 2> lines{hn::Floor(y), hn::Add(hn::Floor(y), set(1))};
  const std::array<V, 2> across{hn::Sub(columns[1], x), hn::Sub(x, columns[0])};
  const std::array<V, 2> down{hn::Sub(lines[1], y), hn::Sub(y, lines[0])};
  Neighbours out;
  out.inside = hn::Zero(df);
  for (size_t i = 0; i < 4; ++i) {
    const Found found = find(from, {columns[i % 2], lines[i / 2]});
    out.pixels[i] = found.pixels;
    out.weights[i] = hn::IfThenElseZero(found.inside, hn::Mul(across[i % 2], down[i / 2]));
    out.inside = hn::Add(out.inside, out.weights[i]);
  }
  return out;
}

template <int kChannel>
HWY_INLINE VU interpolated(const Neighbours& around, const WarpSource& from) {
  V sum = hn::Zero(df);
  for (size_t i = 0; i < 4; ++i) {
    const auto level = hn::BitCast(d32, channel_of<kChannel>(around.pixels[i]));
    sum = hn::Add(sum, hn::Mul(hn::ConvertTo(df, level), around.weights[i]));
  }
  if (from.filled) {
    const V fill = set(from.fill[kChannel]);
    sum = hn::Add(hn::Mul(hn::Sub(sum, fill), around.inside), fill);
  }
  return hn::BitCast(du32, hn::NearestInt(hn::Min(hn::Max(sum, hn::Zero(df)), set(255))));
}

void show_interpolated(const WarpRow& row, const WarpSource& from, size_t width, const Rows& to) {
  for (size_t i = 0; i < width; i += hn::Lanes(df)) {
    const Neighbours around = neighbours_of(from, place_of(row, i));
    store(interpolated<0>(around, from), to[0] + i);
    store(interpolated<1>(around, from), to[1] + i);
    store(interpolated<2>(around, from), to[2] + i);
  }
}

void show(const WarpRow& row, const WarpSource& from, size_t width, const Rows& to) {
  from.nearest ? show_nearest(row, from, width, to) : show_interpolated(row, from, width, to);
}

// Puts the channels of whole vectors of pixels together.
void interleave(const PlanarRow& row, size_t width, uint32_t* to) {
  const hn::CappedTag<uint8_t, base::kPlanarPadding> d;
  auto* const bytes = reinterpret_cast<uint8_t*>(to);
  for (size_t x = 0; x < width; x += hn::Lanes(d)) {
    hn::StoreInterleaved4(hn::LoadU(d, row[0] + x), hn::LoadU(d, row[1] + x),
                          hn::LoadU(d, row[2] + x), hn::Zero(d), d, bytes + 4 * x);
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

// What factors of x and y and a summand become when results are divided by half of a side.
std::array<float, 3> scaled(const double* m, uint32_t side) {
  const auto half = static_cast<float>(side) * 0.5F;
  return {static_cast<float>(m[0]) / half, static_cast<float>(m[1]) / half,
          static_cast<float>(m[2]) / half};
}

}  // namespace

// `row_of` gives the map of each row.
template <class RowOf>
void Warper::warp_rows(const Picture& from, const WarpOptions& options, const RowOf& row_of,
                       Picture* to) {
  const Size size = from.size();
  to->reset(size);
  pixels_.resize(from.stride() * size.height);
  for (uint32_t y = 0; y < size.height; ++y) {
    HWY_DYNAMIC_DISPATCH(interleave)
    (from.rows(y), size.width, pixels_.data() + y * from.stride());
  }
  WarpSource source{.pixels = pixels_.data(),
                    .stride = from.stride(),
                    .size = size,
                    .nearest = options.interpolation == Interpolation::kNearest,
                    .filled = options.fill.has_value(),
                    .fill = options.fill.value_or(std::array<float, 3>{})};
  if (source.nearest) {
    for (float& level : source.fill) level = std::nearbyint(level);
  }
  for (uint32_t y = 0; y < size.height; ++y) {
    HWY_DYNAMIC_DISPATCH(show)
    (row_of(y), source, size.width, {to->row(0, y), to->row(1, y), to->row(2, y)});
  }
}

void Warper::warp(const Picture& from, const Affine& map, const WarpOptions& options, Picture* to) {
  const Size size = from.size();
  WarpRow row{.across = scaled(map.m.data(), size.width),
              .down = scaled(map.m.data() + 3, size.height),
              .divisor = {},
              .projective = false,
              .first_x = (1 - static_cast<float>(size.width)) * 0.5F,
              .y = 0,
              .picture = size};
  const auto row_of = [&](uint32_t y) {
    row.y = (1 - static_cast<float>(size.height)) * 0.5F + static_cast<float>(y);
    return row;
  };
  warp_rows(from, options, row_of, to);
}

void Warper::warp(const Picture& from, const Projection& map, const WarpOptions& options,
                  Picture* to) {
  const Size size = from.size();
  WarpRow row{.across = scaled(map.m.data(), size.width),
              .down = scaled(map.m.data() + 3, size.height),
              .divisor = {static_cast<float>(map.m[6]), static_cast<float>(map.m[7]), 1},
              .projective = true,
              .first_x = 0.5F,
              .y = 0,
              .picture = size};
  const auto row_of = [&](uint32_t y) {
    row.y = 0.5F + static_cast<float>(y);
    return row;
  };
  warp_rows(from, options, row_of, to);
}

void turn(const Picture& from, uint32_t quarters, Picture* to) {
  const Size size = from.size();
  const bool swapped = quarters % 2 == 1;
  to->reset(swapped ? Size{size.height, size.width} : size);
  for (size_t channel = 0; channel < 3; ++channel) {
    for (uint32_t y = 0; y < to->size().height; ++y) {
      uint8_t* const row = to->row(channel, y);
      for (uint32_t x = 0; x < to->size().width; ++x) {
        switch (quarters % 4) {
          case 0:
            row[x] = from.row(channel, y)[x];
            break;
          case 1:
            row[x] = from.row(channel, x)[size.width - 1 - y];
            break;
          case 2:
            row[x] = from.row(channel, size.height - 1 - y)[size.width - 1 - x];
            break;
          default:
            row[x] = from.row(channel, size.height - 1 - x)[y];
        }
      }
    }
  }
}

}  // namespace forebay::image
#endif  // HWY_ONCE
