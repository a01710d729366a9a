#include "image/resize.h"

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "image/resize_weights.h"

namespace forebay::image {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using base::ByteVector;
using base::MutableBytes;

constexpr uint32_t kTapsAtOnce = 4;   // of a row: 12 of the 16 bytes of a block
constexpr size_t kBlock = 16;         // bytes that one shuffle reaches
constexpr size_t kRowAlignment = 64;  // of rows between the passes

// At most two blocks: 32 bytes with AVX2, 16 elsewhere.
using D8 = hn::CappedTag<uint8_t, 2 * kBlock>;
using D16 = hn::Repartition<int16_t, D8>;
using D32 = hn::Repartition<int32_t, D8>;
constexpr D8 d8;
constexpr D16 d16;
constexpr D32 d32;
constexpr size_t kLanes = hn::MaxLanes(d8);
constexpr size_t kRowsAtOnce = kLanes / kBlock;  // in the horizontal pass
static_assert(kRowsAtOnce == 1 || kRowsAtOnce == 2);

using V8 = hn::Vec<D8>;
using V32 = hn::Vec<D32>;

template <size_t kRows>
struct RowSet {
  std::array<const uint8_t*, kRows> from;
  std::array<uint8_t*, kRows> to;
};
using Rows = RowSet<kRowsAtOnce>;

HWY_INLINE V8 load_blocks(const Rows& rows, size_t at) {
  if constexpr (kRowsAtOnce == 1) {
    return hn::LoadU(d8, rows.from[0] + at);
  } else {
    const hn::Half<D8> half;
    return hn::Combine(d8, hn::LoadU(half, rows.from[1] + at), hn::LoadU(half, rows.from[0] + at));
  }
}

// The low four bytes of each block to that block's row.
HWY_INLINE void store_pixel(V8 pixel, const Rows& rows, size_t at) {
  const hn::Repartition<uint32_t, D8> du32;
  const auto words = hn::BitCast(du32, pixel);
  base::store_le(rows.to[0] + at, hn::GetLane(words));
  if constexpr (kRowsAtOnce == 2) {
    base::store_le(rows.to[1] + at, hn::GetLane(hn::UpperHalf(hn::Half<decltype(du32)>(), words)));
  }
}

// Two weights beside each other in every 32 bits.
HWY_INLINE hn::Vec<D16> weight_pair(const int16_t* weights) {
  return hn::BitCast(
      d16, hn::Set(d32, base::load_le<int32_t>(reinterpret_cast<const uint8_t*>(weights))));
}

// Sums of products of pairs. Which lanes of the two hold a pair's sum differs between machines, so
// that the half with which they begin, for rounding, is a product too.
struct Sums {
  V32 sum;
  V32 sum1;

  HWY_INLINE void add(V8 pairs, hn::Vec<D16> weights) {
    sum = hn::ReorderWidenMulAccumulate(d32, hn::BitCast(d16, pairs), weights, sum, sum1);
  }
  HWY_INLINE V32 descale(int precision) const {
    return hn::ShiftRightSame(hn::RearrangeToOddPlusEven(sum, sum1), precision);
  }
};

HWY_INLINE Sums half_of(int precision) {
  const int shift = (precision - 1) / 2;
  Sums sums{hn::Zero(d32), hn::Zero(d32)};
  sums.add(hn::BitCast(d8, hn::Set(d32, 1 << shift)),
           hn::BitCast(d16, hn::Set(d32, 1 << (precision - 1 - shift))));
  return sums;
}

// Each output pixel of the rows from `taps` pixels: bytes of two pixels are spread to int16 pairs
// r0 r1 g0 g1 b0 b1, so that one multiply-add of pairs weighs them. Writes one byte past the last
// pixel.
template <uint32_t kTaps>  // 0: as many as the axis has
HWY_INLINE void blend_pixels(const Axis& axis, const Rows& rows) {
  constexpr uint8_t kZero = 0x80;
  alignas(16) static constexpr uint8_t kFirstPair[16] = {
      0, kZero, 3, kZero, 1, kZero, 4, kZero, 2, kZero, 5, kZero, kZero, kZero, kZero, kZero};
  alignas(16) static constexpr uint8_t kSecondPair[16] = {
      6, kZero, 9, kZero, 7, kZero, 10, kZero, 8, kZero, 11, kZero, kZero, kZero, kZero, kZero};
  alignas(16) static constexpr uint8_t kLowBytes[16] = {0,     4,     8,     kZero, kZero, kZero,
                                                        kZero, kZero, kZero, kZero, kZero, kZero,
                                                        kZero, kZero, kZero, kZero};
  const V8 first_pair = hn::LoadDup128(d8, kFirstPair);
  const V8 second_pair = hn::LoadDup128(d8, kSecondPair);
  const V8 low_bytes = hn::LoadDup128(d8, kLowBytes);
  const Sums half = half_of(axis.precision);
  const V32 most = hn::Set(d32, 255);
  const uint32_t taps = kTaps == 0 ? axis.taps : kTaps;
  const int16_t* weights = axis.weights.data();
  const uint32_t* const start = axis.start.data();
  const size_t count = axis.start.size();
  for (size_t i = 0; i < count; ++i) {
    Sums sums = half;
    size_t at = size_t{start[i]} * 3;
    for (uint32_t tap = 0; tap < taps; tap += kTapsAtOnce) {
      const V8 pixels = load_blocks(rows, at);
      sums.add(hn::TableLookupBytesOr0(pixels, first_pair), weight_pair(weights));
      sums.add(hn::TableLookupBytesOr0(pixels, second_pair), weight_pair(weights + 2));
      weights += kTapsAtOnce;
      at += size_t{kTapsAtOnce} * 3;
    }
    const V32 value = hn::Max(hn::Min(sums.descale(axis.precision), most), hn::Zero(d32));
    store_pixel(hn::TableLookupBytesOr0(hn::BitCast(d8, value), low_bytes), rows, i * 3);
  }
}

void blend_rows(const Axis& axis, const Rows& rows) {
  if (axis.taps == kTapsAtOnce) return blend_pixels<kTapsAtOnce>(axis, rows);
  if (axis.taps == 2 * kTapsAtOnce) return blend_pixels<2 * kTapsAtOnce>(axis, rows);
  blend_pixels<0>(axis, rows);
}

// The rows that the vertical pass reads.
struct Plane {
  const uint8_t* bytes;
  size_t stride;
  uint32_t rows;
  uint32_t first;  // the source row that row 0 is

  const uint8_t* row(size_t source_row) const {
    return bytes + std::min<size_t>(source_row - first, rows - 1) * stride;
  }
};

// int16 values from two vectors to bytes, clamped, in order within each block.
HWY_INLINE V8 pack_bytes(hn::Vec<D16> a, hn::Vec<D16> b) {
  alignas(16) static constexpr uint8_t kEvenThenOdd[16] = {0, 2, 4, 6, 8, 10, 12, 14,
                                                           1, 3, 5, 7, 9, 11, 13, 15};
  const auto clamp = [](hn::Vec<D16> v) {
    return hn::Max(hn::Min(v, hn::Set(d16, 255)), hn::Zero(d16));
  };
  const auto mixed = hn::Or(clamp(a), hn::ShiftLeft<8>(clamp(b)));
  return hn::TableLookupBytes(hn::BitCast(d8, mixed), hn::LoadDup128(d8, kEvenThenOdd));
}

// kLanes bytes of an output row. The interleaving of bytes with those of the next row, and then
// with zeros, stays inside blocks, and packing undoes it in the same order.
HWY_INLINE V8 blend_lanes(const Axis& axis, const Sums& half, const int16_t* weights,
                          const uint8_t* const* from, size_t at) {
  const V8 zero = hn::Zero(d8);
  std::array<Sums, 4> sums{half, half, half, half};
  for (uint32_t tap = 0; tap < axis.taps; tap += 2) {
    const V8 a = hn::LoadU(d8, from[tap] + at);
    const V8 b = hn::LoadU(d8, from[tap + 1] + at);
    const auto pair = weight_pair(weights + tap);
    const V8 low = hn::InterleaveLower(d8, a, b);
    const V8 high = hn::InterleaveUpper(d8, a, b);
    sums[0].add(hn::InterleaveLower(d8, low, zero), pair);
    sums[1].add(hn::InterleaveUpper(d8, low, zero), pair);
    sums[2].add(hn::InterleaveLower(d8, high, zero), pair);
    sums[3].add(hn::InterleaveUpper(d8, high, zero), pair);
  }
  std::array<V32, 4> values;
  for (size_t i = 0; i < 4; ++i) values[i] = sums[i].descale(axis.precision);
  return pack_bytes(hn::ReorderDemote2To(d16, values[0], values[1]),
                    hn::ReorderDemote2To(d16, values[2], values[3]));
}

uint8_t blend_byte(const Axis& axis, const int16_t* weights, const uint8_t* const* from,
                   size_t at) {
  int32_t sum = 1 << (axis.precision - 1);
  for (uint32_t tap = 0; tap < axis.taps; ++tap) sum += weights[tap] * from[tap][at];
  return static_cast<uint8_t>(std::clamp(sum >> axis.precision, 0, 255));
}

void blend_columns(const Axis& axis, size_t index, const uint8_t* const* from, MutableBytes to) {
  const int16_t* const weights = axis.weights.data() + index * axis.taps;
  const Sums half = half_of(axis.precision);
  size_t at = 0;
  for (; at + kLanes <= to.size(); at += kLanes) {
    hn::StoreU(blend_lanes(axis, half, weights, from, at), d8, to.data() + at);
  }
  for (; at < to.size(); ++at) to[at] = blend_byte(axis, weights, from, at);
}

}  // namespace

struct Resizer::State {
  Interpolation interpolation = Interpolation::kBilinear;
  Axis across;
  Axis down;
  ByteVector between;                          // rows after the horizontal pass
  std::array<ByteVector, kRowsAtOnce> padded;  // copies of rows near the end of the source
  std::vector<const uint8_t*> taps;
  std::vector<uint32_t> columns;  // of nearest: bytes from a row's beginning

  Plane blend_across(const Pixels& from, uint32_t first_row, uint32_t end_row);
  void blend_down(const Plane& plane, Pixels* to);
  void copy_nearest(const Pixels& from, Size size, const Rect& kept, Pixels* to);
};

namespace {

void copy_rows(const Plane& plane, uint32_t first_row, Pixels* to) {
  const size_t row_bytes = size_t{to->width} * 3;
  for (uint32_t y = 0; y < to->height; ++y) {
    std::memcpy(to->rgb.data() + y * row_bytes, plane.row(first_row + y), row_bytes);
  }
}

// PyTorch's nearest: the source's pixel for an output, in its float arithmetic.
uint32_t nearest(uint32_t output, uint32_t in, uint32_t out) {
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  return std::min(static_cast<uint32_t>(std::floor(static_cast<float>(output) * scale)), in - 1);
}

}  // namespace

void Resizer::State::copy_nearest(const Pixels& from, Size size, const Rect& kept, Pixels* to) {
  columns.resize(kept.width);
  for (uint32_t x = 0; x < kept.width; ++x) {
    columns[x] = nearest(kept.x + x, from.width, size.width) * 3;
  }
  uint8_t* out = to->rgb.data();
  for (uint32_t y = 0; y < kept.height; ++y) {
    const size_t row = nearest(kept.y + y, from.height, size.height);
    const uint8_t* const pixels = from.rgb.data() + row * from.width * 3;
    for (const uint32_t column : columns) {
      std::memcpy(out, pixels + column, 3);
      out += 3;
    }
  }
}

// Rows are read in whole blocks, whose zero-weighted end may lie past the last row: rows within
// reach of the end are copied to a buffer that is long enough.
Plane Resizer::State::blend_across(const Pixels& from, uint32_t first_row, uint32_t end_row) {
  const size_t row_bytes = size_t{from.width} * 3;
  const size_t reach = size_t{across.taps} * 3 + kBlock;
  const size_t stride =
      (across.start.size() * 3 + 1 + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  const uint32_t count = end_row - first_row;
  if (between.size() < count * stride) between.resize(count * stride);
  for (uint32_t y = 0; y < count; y += kRowsAtOnce) {
    Rows rows{};
    for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
      const uint32_t row = std::min(y + i, count - 1);
      const size_t offset = size_t{first_row + row} * row_bytes;
      rows.from[i] = from.rgb.data() + offset;
      rows.to[i] = between.data() + row * stride;
      if (offset + row_bytes + reach <= from.rgb.size()) continue;
      padded[i].resize(row_bytes + reach);
      std::memcpy(padded[i].data(), rows.from[i], row_bytes);
      rows.from[i] = padded[i].data();
    }
    blend_rows(across, rows);
  }
  return {between.data(), stride, count, first_row};
}

void Resizer::State::blend_down(const Plane& plane, Pixels* to) {
  const size_t row_bytes = size_t{to->width} * 3;
  taps.resize(down.taps);
  for (uint32_t y = 0; y < to->height; ++y) {
    for (uint32_t tap = 0; tap < down.taps; ++tap) taps[tap] = plane.row(down.start[y] + tap);
    blend_columns(down, y, taps.data(), {to->rgb.data() + y * row_bytes, row_bytes});
  }
}

Resizer::Resizer(Interpolation interpolation) : state_(std::make_unique<State>()) {
  state_->interpolation = interpolation;
}
Resizer::~Resizer() = default;
Resizer::Resizer(Resizer&&) noexcept = default;
Resizer& Resizer::operator=(Resizer&&) noexcept = default;

void Resizer::resize(const Pixels& from, Size size, const Rect& kept, Pixels* to) {
  FOREBAY_CHECK(from.width > 0 && from.height > 0 && kept.inside(size.width, size.height));
  to->reset(kept.width, kept.height);
  if (state_->interpolation == Interpolation::kNearest) {
    state_->copy_nearest(from, size, kept, to);
    return;
  }
  const bool cubic = state_->interpolation == Interpolation::kBicubic;
  const bool across = size.width != from.width;
  const bool down = size.height != from.height;

  uint32_t first_row = kept.y;
  uint32_t end_row = kept.y + kept.height;
  if (down) {
    Axis& axis = state_->down;
    axis.compute({from.height, size.height, kept.y, kept.height, 2, cubic});
    first_row = axis.start.front();
    end_row = std::min(axis.start.back() + axis.taps, from.height);
  }
  const size_t stride = size_t{from.width} * 3;
  Plane plane{from.rgb.data() + first_row * stride + size_t{kept.x} * 3, stride,
              end_row - first_row, first_row};
  if (across) {
    state_->across.compute({from.width, size.width, kept.x, kept.width, kTapsAtOnce, cubic});
    plane = state_->blend_across(from, first_row, end_row);
  }
  if (down) {
    state_->blend_down(plane, to);
  } else {
    copy_rows(plane, kept.y, to);
  }
}

}  // namespace forebay::image
