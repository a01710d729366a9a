// The passes of blend.h. Compiled once for each instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/transform/blend.cc"
#include <hwy/foreach_target.h>
// clang-format off: foreach_target comes first
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/pack-inl.h"
#include "image/transform/blend.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::image::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Each 128-bit block of a vector belongs to one group of outputs.
using D8 = hn::CappedTag<uint8_t, Across::kFoursWindow * Across::kFoursAtOnce>;
using D16 = hn::Repartition<int16_t, D8>;
using D32 = hn::Repartition<int32_t, D8>;
constexpr D8 d8;
constexpr D16 d16;
constexpr D32 d32;
using V8 = hn::Vec<D8>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;
constexpr size_t kGroups = hn::MaxLanes(d8) / Across::kFoursWindow;

// Sums of products of pairs. Machines differ in which lanes of the two vectors hold the sum of a
// pair, so the half that they start from, for rounding, is a product too.
struct Sums {
  V32 sum;
  V32 sum1;

  // Adds products of bytes, as 16-bit numbers, and weights.
  HWY_INLINE void add(V8 values, V16 weights) {
    sum = hn::ReorderWidenMulAccumulate(d32, hn::BitCast(d16, values), weights, sum, sum1);
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

// Loads the windows of as many groups as `d` has blocks.
template <class D>
HWY_INLINE hn::Vec<D> load_windows(D d, const uint8_t* row, const uint32_t* windows) {
  if constexpr (hn::MaxLanes(D()) == Across::kFoursWindow) {
    return hn::LoadU(d, row + windows[0]);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d,
                       load_windows(half, row, windows + hn::MaxLanes(half) / Across::kFoursWindow),
                       load_windows(half, row, windows));
  }
}

// kPairs is the number of pairs of taps, in one window; 0 means any number of pairs and windows.
template <uint32_t kPairs>
HWY_INLINE void blend_groups(const Across& across, const uint8_t* row, uint8_t* out) {
  const hn::Rebind<uint8_t, D32> d_out;
  const Sums half = half_of(across.axis.precision);
  const uint32_t pairs = kPairs == 0 ? across.axis.taps / 2 : kPairs;
  const size_t pair_stride = across.groups * 2 * Across::kFour;
  for (size_t group = 0; group < across.groups; group += kGroups) {
    const V8 first = hn::LoadU(d8, across.places.data() + group * Across::kFoursWindow);
    const int16_t* weights = across.weights.data() + group * 2 * Across::kFour;
    const uint8_t* from = row;
    V8 window = load_windows(d8, from, across.windows.data() + group);
    V8 places = first;
    Sums sums = half;
    uint32_t of_window = 0;
    for (uint32_t pair = 0; pair < pairs; ++pair, weights += pair_stride) {
      if (kPairs == 0 && of_window++ == across.pairs_of_window) {
        from += 2 * across.pairs_of_window;
        window = load_windows(d8, from, across.windows.data() + group);
        places = first;
        of_window = 1;
      }
      sums.add(hn::TableLookupBytesOr0(window, places), hn::LoadU(d16, weights));
      places = hn::Add(places, hn::BitCast(d8, hn::Set(d16, 2)));
    }
    hn::StoreU(hn::DemoteTo(d_out, sums.descale(across.axis.precision)), d_out,
               out + group * Across::kFour);
  }
}

// Makes one output after the other.
void blend_each(const Across& across, const uint8_t* row, uint8_t* out) {
  const hn::FixedTag<int16_t, Across::kTapsOfEach> dw;
  const hn::Rebind<uint8_t, decltype(dw)> db;
  const hn::Repartition<int32_t, decltype(dw)> ds;
  const Axis& axis = across.axis;
  const int16_t* weights = axis.weights.data();
  for (const uint32_t start : axis.start) {
    auto sum = hn::Zero(ds);
    auto sum1 = hn::Zero(ds);
    // Taps after the end of the row have no weight, and too many of them could leave readable
    // memory.
    const uint32_t taps = std::min(axis.taps, axis.spec.in - start);
    for (uint32_t tap = 0; tap < taps; tap += Across::kTapsOfEach) {
      const auto pixels = hn::PromoteTo(dw, hn::LoadU(db, row + start + tap));
      sum = hn::ReorderWidenMulAccumulate(ds, pixels, hn::LoadU(dw, weights + tap), sum, sum1);
    }
    const int32_t total = hn::GetLane(hn::SumOfLanes(ds, hn::Add(sum, sum1)));
    const int32_t half = 1 << (axis.precision - 1);
    *out++ = static_cast<uint8_t>(std::clamp((total + half) >> axis.precision, 0, 255));
    weights += axis.taps;
  }
}

void blend_channel(const Across& across, const uint8_t* row, uint8_t* out) {
  if (across.of_group == 1) return blend_each(across, row, out);
  const uint32_t pairs = across.axis.taps / 2;
  if (pairs > across.pairs_of_window) return blend_groups<0>(across, row, out);
  if (pairs == 1) return blend_groups<1>(across, row, out);
  if (pairs == 2) return blend_groups<2>(across, row, out);
  if (pairs == 3) return blend_groups<3>(across, row, out);
  blend_groups<0>(across, row, out);
}

bool has_avx512() { return HWY_TARGET <= HWY_AVX3; }

// Two neighbouring weights in every 32 bits.
HWY_INLINE V16 weight_pair(const int16_t* weights) {
  return hn::BitCast(
      d16, hn::Set(d32, base::load_le<int32_t>(reinterpret_cast<const uint8_t*>(weights))));
}

// Bytes are interleaved with those of the next row, and then with zeros, inside blocks. Packing
// undoes this in the same order.
HWY_INLINE V8 blend_lanes(const Axis& axis, const Sums& half, const int16_t* weights,
                          const uint8_t* const* rows, size_t at) {
  const V8 zero = hn::Zero(d8);
  Sums sums[4] = {half, half, half, half};
  for (uint32_t tap = 0; tap < axis.taps; tap += 2) {
    const V8 a = hn::LoadU(d8, rows[tap] + at);
    const V8 b = hn::LoadU(d8, rows[tap + 1] + at);
    const V16 pair = weight_pair(weights + tap);
    const V8 low = hn::InterleaveLower(d8, a, b);
    const V8 high = hn::InterleaveUpper(d8, a, b);
    sums[0].add(hn::InterleaveLower(d8, low, zero), pair);
    sums[1].add(hn::InterleaveUpper(d8, low, zero), pair);
    sums[2].add(hn::InterleaveLower(d8, high, zero), pair);
    sums[3].add(hn::InterleaveUpper(d8, high, zero), pair);
  }
  V32 values[4];
  for (size_t i = 0; i < 4; ++i) values[i] = sums[i].descale(axis.precision);
  return base::HWY_NAMESPACE::pack(d8, hn::ReorderDemote2To(d16, values[0], values[1]),
                                   hn::ReorderDemote2To(d16, values[2], values[3]));
}

void blend_down(const Axis& axis, size_t index, const uint8_t* const* rows, size_t bytes,
                uint8_t* out) {
  const int16_t* const weights = axis.weights.data() + index * axis.taps;
  const Sums half = half_of(axis.precision);
  for (size_t at = 0; at < bytes; at += hn::MaxLanes(d8)) {
    hn::StoreU(blend_lanes(axis, half, weights, rows, at), d8, out + at);
  }
}

}  // namespace
}  // namespace forebay::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forebay::image {

HWY_EXPORT(blend_channel);
HWY_EXPORT(blend_down);
HWY_EXPORT(has_avx512);

namespace {

// Returns how far the first tap of the last of `outputs` neighbouring outputs may lie after the
// first tap of the first output, plus two.
uint64_t reach_of(uint32_t outputs, const AxisSpec& axis) {
  return static_cast<uint64_t>(std::ceil((outputs - 1) * axis.length / axis.out)) + 2;
}

uint32_t pairs_in(uint32_t window, uint64_t reach) {
  return reach > window ? 0 : (window - static_cast<uint32_t>(reach)) / 2 + 1;
}

// The most pairs of taps of one output.
uint32_t pairs_max(const AxisSpec& axis) {
  const double support = (axis.cubic ? 2 : 1) * std::max(axis.length / axis.out, 1.0);
  return static_cast<uint32_t>(std::ceil(support)) + 1;
}

}  // namespace

// Uses Highway's dispatch, because hwy::SupportedTargets() queries the processor each time, which
// takes microseconds on a virtual one.
bool runs_avx512() {
#ifdef FOREBAY_X86_KERNELS
  return HWY_DYNAMIC_DISPATCH(has_avx512)() && __builtin_cpu_supports("avx512vbmi") &&
         __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

void blend_across(const Across& across, const base::PlanarRow& row, uint8_t* out,
                  size_t out_stride) {
#ifdef FOREBAY_X86_KERNELS
  if (across.of_group == Across::kSixteen) {
    const Sixteens sixteens{.windows = across.windows.data(),
                            .places = across.places.data(),
                            .weights = across.weights.data(),
                            .groups = across.groups,
                            .window = across.window,
                            .pairs = across.axis.taps / 2,
                            .precision = across.axis.precision};
    blend_sixteens_avx512(sixteens, row.data(), out, out_stride);
    return;
  }
#endif
  for (size_t c = 0; c < row.size(); ++c) {
    HWY_DYNAMIC_DISPATCH(blend_channel)(across, row[c], out + c * out_stride);
  }
}

void blend_down(const Axis& axis, size_t index, const uint8_t* const* rows, size_t bytes,
                uint8_t* out) {
#ifdef FOREBAY_X86_KERNELS
  if (runs_avx512()) {
    const Down down{axis.weights.data() + index * axis.taps, axis.taps, axis.precision};
    blend_down_avx512(down, rows, bytes, out);
    return;
  }
#endif
  HWY_DYNAMIC_DISPATCH(blend_down)(axis, index, rows, bytes, out);
}

void Across::compute(AxisSpec wanted) {
  const bool may_be = runs_avx512();
  const uint64_t reach = reach_of(kSixteen, wanted);
  const bool fours = reach_of(kFour, wanted) <= kFoursWindow;
  const bool wide =
      may_be && wanted.in >= kWideWindow && pairs_in(kWideWindow, reach) >= pairs_max(wanted);
  wanted.multiple = fours || wide ? 2 : kTapsOfEach;
  if (wanted == axis.spec && may_be == may_be_sixteens) return;
  may_be_sixteens = may_be;
  axis.compute(wanted);
  of_group = 1;
  if (may_be && axis.taps / 2 <= pairs_in(kSixteensWindow, reach)) {
    group_outputs(kSixteen, kSixteensWindow);
  } else if (wide) {
    group_outputs(kSixteen, kWideWindow);
  } else if (fours) {
    group_outputs(kFour, kFoursWindow);
  }
}

void Across::group_outputs(uint32_t outputs, uint32_t window_bytes) {
  constexpr size_t kAtOnce = size_t{kFour} * kFoursAtOnce;
  static_assert(kAtOnce == kSixteen);
  of_group = outputs;
  window = window_bytes;
  pairs_of_window = pairs_in(window, reach_of(outputs, axis.spec));
  const size_t last = axis.start.size() - 1;
  const size_t all = (last / kAtOnce + 1) * kAtOnce;
  groups = all / outputs;
  windows.resize(groups);
  places.assign(4 * all, 0x80);  // 0x80 selects a zero byte
  weights.resize(all * axis.taps);
  for (size_t i = 0; i < all; ++i) {
    const size_t output = std::min(i, last);
    const size_t group = i / outputs;
    if (i % outputs == 0) {
      windows[group] =
          std::min(axis.start[output], axis.spec.in + uint32_t{base::kPlanarPadding} - window);
    }
    const auto place = static_cast<uint8_t>(axis.start[output] - windows[group]);
    places[4 * i] = place;
    places[4 * i + 2] = place + 1;
    const int16_t* const from = axis.weights.data() + output * axis.taps;
    int16_t* to = weights.data() + 2 * i;
    for (uint32_t tap = 0; tap < axis.taps; tap += 2, to += 2 * all) std::copy_n(from + tap, 2, to);
  }
}

}  // namespace forebay::image
#endif  // HWY_ONCE
