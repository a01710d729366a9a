// The common part of the inverse DCTs: arithmetic on pairs of frequencies, and checks which
// arithmetic is sufficient. Included once for each instruction set.
#if defined(FOREBAY_JPEG_IDCT_GROUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOREBAY_JPEG_IDCT_GROUP_INL_H_
#undef FOREBAY_JPEG_IDCT_GROUP_INL_H_
#else
#define FOREBAY_JPEG_IDCT_GROUP_INL_H_
#endif

#include "base/pack-inl.h"
#include "jpeg/kernels/idct_constants.h"
#include "jpeg/kernels/idct_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::jpeg::HWY_NAMESPACE {
namespace {

// Returns the sum of the products of each pair.
HWY_INLINE V32 multiply(V16 pairs, V16 factors) {
  V32 odd_sum = hn::Zero(d32);
  const V32 sum = hn::ReorderWidenMulAccumulate(d32, pairs, factors, hn::Zero(d32), odd_sum);
  return hn::RearrangeToOddPlusEven(sum, odd_sum);
}
HWY_INLINE V32 multiply_pairs(V16 pairs, int16_t even, int16_t odd) {
  const uint32_t both = uint32_t{static_cast<uint16_t>(odd)} << 16 | static_cast<uint16_t>(even);
  return multiply(pairs, hn::BitCast(d16, hn::Set(d32, static_cast<int32_t>(both))));
}

// Returns the sums of a pass, shifted down, as 16-bit lanes, with `odd` between `even`.
template <int kShift>
HWY_INLINE V16 join(V32 even, V32 odd) {
  const V32 low = hn::ShiftRight<kShift>(even);
  if constexpr (kShift < 16) {
    return hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16 - kShift>(odd)), hn::BitCast(d16, low));
  } else {
    return hn::OddEven(hn::BitCast(d16, hn::ShiftRight<kShift - 16>(odd)), hn::BitCast(d16, low));
  }
}

constexpr int kFirstShift = kConstBits - kPass1Bits;
constexpr int kSecondShift = kConstBits + kPass1Bits + 3;
// The number to add to sums before they are shifted, so that they are rounded; in the second pass,
// also to make them unsigned.
template <int kShift>
HWY_INLINE V32 rounding() {
  return hn::Set(d32, (1 << (kShift - 1)) + (kShift < kSecondShift ? 0 : 128 << kShift));
}

// Transposes four rows of pairs of columns to one vector for each pair.
HWY_INLINE void transpose_pairs(const V16* rows, V16* pairs) {
  const hn::Repartition<int64_t, D16> d64;
  for (size_t upper = 0; upper < 2; ++upper) {
    V32 two[2];
    for (size_t i = 0; i < 2; ++i) {
      const V32 a = hn::BitCast(d32, rows[2 * i]);
      const V32 b = hn::BitCast(d32, rows[2 * i + 1]);
      two[i] = upper == 0 ? hn::InterleaveLower(d32, a, b) : hn::InterleaveUpper(d32, a, b);
    }
    const auto a = hn::BitCast(d64, two[0]);
    const auto b = hn::BitCast(d64, two[1]);
    pairs[2 * upper] = hn::BitCast(d16, hn::InterleaveLower(d64, a, b));
    pairs[2 * upper + 1] = hn::BitCast(d16, hn::InterleaveUpper(d64, a, b));
  }
}

HWY_INLINE V8 pack(V16 a, V16 b) { return base::HWY_NAMESPACE::pack(d8, a, b); }

HWY_INLINE void clear(const Group& group) {
  for (int16_t* coefficients : group.coefficients) {
    for (size_t at = 0; at < 64; at += hn::MaxLanes(d16)) {
      hn::StoreU(hn::Zero(d16), d16, coefficients + at);
    }
  }
}

// Returns the sums of the absolute values of the lanes of these vectors, at most 0x7FFF.
HWY_INLINE V16 sum_sizes(const V16* v, size_t count) {
  const hn::RebindToUnsigned<D16> du16;
  auto sum = hn::BitCast(du16, hn::Abs(v[0]));  // -32768 becomes 32768
  for (size_t i = 1; i < count; ++i) sum = hn::SaturatedAdd(sum, hn::BitCast(du16, hn::Abs(v[i])));
  return hn::BitCast(d16, hn::Min(sum, hn::Set(du16, 0x7FFF)));
}
// Whether the sum of each pair is below `most`.
HWY_INLINE bool pairs_are_below(int32_t most, V16 sums) {
  return hn::AllTrue(d32, hn::Lt(multiply_pairs(sums, 1, 1), hn::Set(d32, most)));
}
// Whether the sum of each block is below `most`.
HWY_INLINE bool blocks_are_below(int32_t most, V16 sums) {
  const V32 pairs = multiply_pairs(sums, 1, 1);
  const V32 four = hn::Add(pairs, hn::Shuffle2301(pairs));
  return hn::AllTrue(d32, hn::Lt(hn::Add(four, hn::Shuffle1032(four)), hn::Set(d32, most)));
}

// A pass multiplies by less than 1.4, the first pass also by 2^kPass1Bits. When the sum of the
// coefficients of a block stays below this, 16 bits hold the results of both passes. The samples
// are at most the sum times 1.4^2 / 8, so they are near (see are_near()).
constexpr int32_t kEasySum = 2000;
// When the sum of the numbers that are multiplied together stays below these, 32 bits hold the sums
// of each pass, and 16 bits the results of the first pass.
constexpr int32_t kFirstSum = 5800;
constexpr int32_t kSecondSum = 32767;

HWY_INLINE bool are_easy(const V16* v, size_t count) {
  return blocks_are_below(kEasySum, sum_sizes(v, count));
}
// Whether the sums of a full block are below `most`, for both halves of its columns or rows.
HWY_INLINE bool sums_are_below(int32_t most, const V16* v) {
  return pairs_are_below(most, sum_sizes(v, 4)) && pairs_are_below(most, sum_sizes(v + 4, 4));
}

// Whether libjpeg's plain code limits these samples by saturating, like `pack` does. Samples
// further away are taken modulo 1024.
HWY_INLINE bool are_near(const V16* samples, size_t count) {
  V16 all = hn::Zero(d16);
  for (size_t i = 0; i < count; ++i) {
    all = hn::Or(all, hn::Add(samples[i], hn::Set(d16, 512 - 128)));
  }
  return hn::AllTrue(d16, hn::Eq(hn::And(all, hn::Set(d16, ~1023)), hn::Zero(d16)));
}

HWY_INLINE void transform_plainly(const Group& group, const Dequantiser& dequantiser,
                                  uint32_t side) {
  for (size_t i = 0; i < group.count; ++i) {
    transform_plain(group.coefficients[i], dequantiser, side, group.samples + i * side,
                    group.stride);
  }
}

template <void (*kTransform)(const Group&, const Dequantiser&)>
HWY_INLINE void transform_groups(const BlockRow& row, const Dequantiser& dequantiser) {
  Group group;
  group.samples = row.samples;
  group.stride = row.stride;
  int16_t* mcu = row.coefficients;
  uint32_t of_mcu = 0;
  for (uint32_t left = row.count; left > 0; left -= static_cast<uint32_t>(group.count)) {
    group.count = left < kBlocks ? left : kBlocks;
    for (size_t i = 0; i < group.count; ++i) {
      group.coefficients[i] = mcu + size_t{of_mcu} * 64;
      if (++of_mcu < row.across) continue;
      of_mcu = 0;
      mcu += row.mcu_stride;
    }
    for (size_t i = group.count; i < kBlocks; ++i) {
      group.coefficients[i] = group.coefficients[group.count - 1];
    }
    kTransform(group, dequantiser);
    group.samples += group.count * row.side;
  }
}

}  // namespace
}  // namespace forebay::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOREBAY_JPEG_IDCT_GROUP_INL_H_
