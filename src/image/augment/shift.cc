// The rows of shift.h. Compiled once for each instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/augment/shift.cc"
#include <hwy/foreach_target.h>
// clang-format off: foreach_target comes first
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cmath>
#include <cstring>

#include "image/augment/coordinates-inl.h"
#include "image/augment/shift.h"
#include "image/augment/turn.h"

namespace forebay::image {
#ifndef FOREBAY_IMAGE_AUGMENT_SHIFT_ONCE
#define FOREBAY_IMAGE_AUGMENT_SHIFT_ONCE

// The input from which a row is interpolated: the two lines of the picture that the row lies
// between. Each begins at the pixel to the left of the row's first position.
struct ShiftedRow {
  const uint8_t* upper;
  const uint8_t* lower;  // null: the row is the upper line
  const float* right;  // the share of the right pixel at each position, with room for whole vectors
  float lower_share;   // the share of the lower line
};

#endif
}  // namespace forebay::image

HWY_BEFORE_NAMESPACE();
namespace forebay::image::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr CoordinateTag df;
constexpr hn::RebindToSigned<CoordinateTag> d32;
constexpr hn::Rebind<uint8_t, CoordinateTag> d8;
using V = CoordinateVec;

// Finds how far the positions of `count` pixels of a row lie beyond the pixels that are `right`
// further right: from 0 to 1, except for errors of float32. Writes whole vectors.
void find_shares(const WarpRow& row, uint32_t first, uint32_t count, int64_t right, float* to) {
  for (size_t i = 0; i < count; i += hn::Lanes(df)) {
    const V whole = hn::Iota(df, static_cast<float>(static_cast<int64_t>(first + i) + right));
    hn::StoreU(hn::Sub(coordinates_of(row, first + i).x, whole), df, to + i);
  }
}

HWY_INLINE V load(const uint8_t* from) {
  return hn::ConvertTo(df, hn::PromoteTo(d32, hn::LoadU(d8, from)));
}

HWY_INLINE V between(V first, V second, V share) {
  return hn::Add(first, hn::Mul(hn::Sub(second, first), share));
}

// Writes whole vectors.
void shift_row(const ShiftedRow& row, size_t width, uint8_t* to) {
  const V lower = hn::Set(df, row.lower_share);
  for (size_t x = 0; x < width; x += hn::Lanes(df)) {
    const V right = hn::LoadU(df, row.right + x);
    const auto of_line = [&](const uint8_t* line) HWY_ATTR {
      return between(load(line + x), load(line + x + 1), right);
    };
    V level = of_line(row.upper);
    if (row.lower != nullptr) level = between(level, of_line(row.lower), lower);
    hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(level)), d8, to + x);
  }
}

}  // namespace
}  // namespace forebay::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forebay::image {

HWY_EXPORT(find_shares);
HWY_EXPORT(shift_row);

namespace {

// Up to this side of a picture, torchvision's map in float32 is less than kFloatError pixels off.
constexpr uint32_t kLongestSide = 4096;
constexpr double kFloatError = 0.01;
// A distance of less than this many pixels changes no level.
constexpr double kNothing = 1e-4;
// Bytes after the last pixel of a line, so that whole vectors can be read.
constexpr size_t kRoom = base::kPlanarPadding;

// A distance in pixels, and its whole pixels. A fraction that is too small to change any level is
// dropped.
struct Distance {
  double exact;
  int64_t whole;
  bool is_whole() const { return exact == static_cast<double>(whole); }
};

// A distance at which nothing of a picture with this side is shown may become any other such
// distance.
Distance distance_of(double pixels, uint32_t side, bool nearest) {
  const double near = std::clamp(pixels, -1.0 - side, 1.0 + side);
  const double rounded = std::nearbyint(near);
  if (nearest || std::abs(near - rounded) < kNothing) {
    return {rounded, static_cast<int64_t>(rounded)};
  }
  return {near, static_cast<int64_t>(std::floor(near))};
}

bool rounds_alike(double distance) {
  return std::abs(distance - std::nearbyint(distance)) < 0.5 - kFloatError;
}

// Returns the share of a pixel at this position that lies inside the picture.
double share_inside(double place, uint32_t side) {
  return std::clamp(std::min(place + 1, side - place), 0.0, 1.0);
}

// Which of `count` positions lie outside a side of the picture, completely or partly. The first of
// them shows `first`.
struct Edges {
  uint32_t outside_until;
  uint32_t inside_from;
  uint32_t inside_until;
  uint32_t outside_from;
};

Edges edges_of(double first, uint32_t side, uint32_t count) {
  const auto place = [&](double at) {
    return static_cast<uint32_t>(std::clamp(std::ceil(at - first), 0.0, double{1} * count));
  };
  const uint32_t inside_from = place(0);
  return {.outside_until = place(-1),
          .inside_from = inside_from,
          .inside_until = std::max(inside_from, place(side - 1.0)),
          .outside_from = std::max(inside_from, place(side))};
}

// Returns the interpolated level at a position of a row, with a black border around the picture.
float level_at(const ShiftedRow& row, uint32_t x) {
  const auto of_line = [&](const uint8_t* line) {
    const float left = line[x];
    return left + (static_cast<float>(line[x + 1]) - left) * row.right[x];
  };
  const float upper = of_line(row.upper);
  if (row.lower == nullptr) return upper;
  return upper + (of_line(row.lower) - upper) * row.lower_share;
}

// Blends the pixels of a row that lie outside the picture, completely or partly, with the colour
// around it, like torchvision does. `first` is the position that the first pixel shows.
void fill_row(const ShiftedRow& row, float fill, double first, double inside_down, uint32_t side,
              uint32_t count, uint8_t* to) {
  const Edges edges = edges_of(first, side, count);
  const auto blend = [&](uint32_t from, uint32_t until) {
    for (uint32_t x = from; x < until; ++x) {
      const double inside = inside_down * share_inside(first + x, side);
      to[x] = static_cast<uint8_t>(std::nearbyint((level_at(row, x) - fill) * inside + fill));
    }
  };
  const auto level = static_cast<uint8_t>(std::nearbyint(fill));
  std::memset(to, level, edges.outside_until);
  std::memset(to + edges.outside_from, level, count - edges.outside_from);
  if (inside_down == 1) {
    blend(edges.outside_until, edges.inside_from);
    blend(edges.inside_until, edges.outside_from);
  } else {
    blend(edges.outside_until, edges.outside_from);
  }
}

}  // namespace

// Returns a line of the picture, at its first pixel, with a black border. Only the columns of the
// window's source have their pixels.
const uint8_t* Shifter::bordered(size_t buffer, const Picture& from, size_t channel, int64_t line,
                                 const WarpWindow& window) {
  const size_t border = window.picture.width + 1;
  const Rect& source = window.source;
  const int64_t at = line - source.y;
  if (at < 0 || at >= source.height) return outside_.data() + border;
  uint8_t* const first = lines_[buffer].data() + border;
  std::memcpy(first + source.x, from.row(channel, static_cast<uint32_t>(at)), source.width);
  return first;
}

void Shifter::shift_rows(const Picture& from, const Affine& map, const WarpOptions& options,
                         const WarpWindow& window, Picture* to) {
  const Size size = window.picture;
  const Rect& made = window.result;
  to->reset({made.width, made.height});
  const size_t bytes = size_t{3} * size.width + 3 + kRoom;
  outside_.assign(bytes, 0);
  for (base::ByteVector& line : lines_) line.assign(bytes, 0);
  shares_.assign(to->stride(), 0);
  const bool nearest = options.interpolation == Interpolation::kNearest;
  const WarpRow rows = warp_row(map, size, size);
  const Distance down = distance_of(map.m[5], size.height, nearest);
  const auto lower_share = static_cast<float>(down.exact - static_cast<double>(down.whole));
  for (uint32_t i = 0; i < made.height; ++i) {
    const uint32_t y = made.y + i;
    const double turned = map.m[1] * (y - (size.height - 1) * 0.5);
    const Distance right = distance_of(map.m[2] + turned, size.width, nearest);
    if (right.is_whole()) {
      std::ranges::fill(shares_, 0.0F);
    } else {
      HWY_DYNAMIC_DISPATCH(find_shares)
      (rows.at(y), made.x, made.width, right.whole, shares_.data());
    }
    const double inside_down = share_inside(y + down.exact, size.height);
    for (size_t channel = 0; channel < 3; ++channel) {
      uint8_t* const out = to->row(channel, i);
      const auto line_at = [&](size_t buffer, int64_t line) {
        return bordered(buffer, from, channel, line, window) + made.x + right.whole;
      };
      const int64_t line = y + down.whole;
      ShiftedRow row{line_at(0, line), nullptr, shares_.data(), lower_share};
      if (!down.is_whole()) row.lower = line_at(1, line + 1);
      if (right.is_whole() && down.is_whole()) {
        std::memcpy(out, row.upper, made.width);
      } else {
        HWY_DYNAMIC_DISPATCH(shift_row)(row, made.width, out);
      }
      if (options.fill) {
        fill_row(row, (*options.fill)[channel], made.x + right.exact, inside_down, size.width,
                 made.width, out);
      }
    }
  }
}

bool Shifter::shift(const Picture& from, const Affine& map, const WarpOptions& options,
                    const WarpWindow& window, Picture* to) {
  const auto& m = map.m;
  const bool is_translation = m[1] == 0 && m[3] == 0;
  if (m[0] != 1 || m[4] != 1 || (m[1] != 0 && m[3] != 0)) return false;
  if (!std::isfinite(m[1] + m[2] + m[3] + m[5])) return false;
  if (std::max(window.picture.width, window.picture.height) > kLongestSide) return false;
  if (options.interpolation == Interpolation::kNearest &&
      !(is_translation && rounds_alike(m[2]) && rounds_alike(m[5]))) {
    return false;
  }
  if (m[3] == 0) {
    shift_rows(from, map, options, window, to);
    return true;
  }
  const auto swapped = [](const Rect& part) {
    return Rect{part.y, part.x, part.height, part.width};
  };
  const WarpWindow columns{{window.picture.height, window.picture.width},
                           swapped(window.source),
                           swapped(window.result)};
  transpose(from, &columns_);
  shift_rows(columns_, {{m[4], m[3], m[5], m[1], m[0], m[2]}}, options, columns, &shifted_);
  transpose(shifted_, to);
  return true;
}

}  // namespace forebay::image
#endif  // HWY_ONCE
