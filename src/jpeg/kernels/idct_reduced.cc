// Reduced inverse DCTs, to blocks of 4 x 4, 2 x 2 and 1 x 1 samples. Compiled once for each
// instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "jpeg/kernels/idct_reduced.cc"
#include <hwy/foreach_target.h>
// clang-format off: foreach_target comes first
#include <hwy/highway.h>
// clang-format on

#include "jpeg/kernels/idct_group-inl.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::jpeg::HWY_NAMESPACE {
namespace {

HWY_INLINE V32 multiply_odd(V16 pair17, V16 pair35, const int16_t* factors) {
  return hn::Add(multiply_pairs(pair17, factors[1], factors[7]),
                 multiply_pairs(pair35, factors[3], factors[5]));
}

// Returns frequency 0, shifted up by `kMeanBits` and kConstBits. Frequency 4 has no effect.
template <int kMeanBits>
HWY_INLINE V32 widen(V16 pair04) {
  return hn::ShiftLeft<kMeanBits>(multiply_pairs(pair04, 1 << kConstBits, 0));
}

// Computes four sums from the pairs of kPairs.
template <int kShift>
HWY_INLINE void pass_to_four(const V16* pairs, V32* sums) {
  const V32 zero = hn::Add(widen<1>(pairs[0]), rounding<kShift>());
  const V32 even = multiply_pairs(pairs[1], kOfFour[0][2], kOfFour[0][6]);
  const V32 evens[2] = {hn::Add(zero, even), hn::Sub(zero, even)};
  for (size_t i = 0; i < 2; ++i) {
    const V32 odd = multiply_odd(pairs[2], pairs[3], kOfFour[i]);
    sums[i] = hn::Add(evens[i], odd);
    sums[3 - i] = hn::Sub(evens[i], odd);
  }
}

// Where the rows of each block, of 32 bits each, go to become rows of all blocks.
struct RowOffsets {
  alignas(64) int32_t at[4 * kBlocks];
};
constexpr RowOffsets make_row_offsets() {
  RowOffsets out{};
  for (size_t i = 0; i < 4 * kBlocks; ++i) {
    out.at[i] = static_cast<int32_t>(i % kBlocks * 4 + i / kBlocks);
  }
  return out;
}
constexpr RowOffsets kRowOffsets = make_row_offsets();

// Stores four columns: columns 0 and 1 next to each other, then columns 2 and 3.
HWY_INLINE void store_four(const V16* columns, const Group& group) {
  alignas(16) static constexpr uint8_t kTransposed[16] = {0, 1, 8,  9,  2, 3, 10, 11,
                                                          4, 5, 12, 13, 6, 7, 14, 15};
  constexpr size_t kRowBytes = 4 * kBlocks;
  const V8 samples = pack(columns[0], columns[1]);
  const V8 rows = hn::TableLookupBytes(samples, hn::LoadDup128(d8, kTransposed));
  const V32 all =
      hn::TableLookupLanes(hn::BitCast(d32, rows), hn::SetTableIndices(d32, kRowOffsets.at));
  alignas(64) uint8_t bytes[4 * kRowBytes];
  hn::Store(hn::BitCast(d8, all), d8, bytes);
  uint8_t* to = group.samples;
  for (size_t row = 0; row < 4; ++row, to += group.stride) {
    const uint8_t* const from = bytes + row * kRowBytes;
    if (group.count == kBlocks) {
      __builtin_memcpy(to, from, kRowBytes);
    } else {
      for (size_t i = 0; i < group.count; ++i) __builtin_memcpy(to + 4 * i, from + 4 * i, 4);
    }
  }
}

// Returns false when the coefficients need other arithmetic.
HWY_INLINE bool transform_to_four(const Loaded& loaded, const Group& group) {
  constexpr int kMeanBits = 1;
  V16 in[8];
  arrange_full(loaded, in);
  const bool easy = are_easy(in, 8);
  V32 first[4];
  V32 second[4];
  pass_to_four<kFirstShift + kMeanBits>(in, first);
  pass_to_four<kFirstShift + kMeanBits>(in + 4, second);
  V16 rows[4];
  for (size_t i = 0; i < 4; ++i) rows[i] = join<kFirstShift + kMeanBits>(first[i], second[i]);
  V16 pairs[4];
  transpose_pairs(rows, pairs);
  V32 sums[4];
  pass_to_four<kSecondShift + kMeanBits>(pairs, sums);
  const V16 columns[2] = {join<kSecondShift + kMeanBits>(sums[0], sums[1]),
                          join<kSecondShift + kMeanBits>(sums[2], sums[3])};
  const bool right =
      easy || (sums_are_below(kFirstSum, in) && pairs_are_below(kSecondSum, sum_sizes(pairs, 4)) &&
               are_near(columns, 2));
  if (right) store_four(columns, group);
  return right;
}

// Computes two sums of 32 bits from the pairs of kPairs. Among even frequencies, only 0 has an
// effect.
HWY_INLINE void pass_to_two(const V16* pairs, V32* sums) {
  const V32 zero = hn::Add(widen<2>(pairs[0]), rounding<kFirstShift + 2>());
  const V32 odd = multiply_odd(pairs[2], pairs[3], kOfTwo);
  sums[0] = hn::Add(zero, odd);
  sums[1] = hn::Sub(zero, odd);
}

// Makes the samples of each block from two rows of pairs of columns, row by row, four times.
HWY_INLINE V16 pass_rows_to_two(const V16* rows) {
  constexpr int kShift = kSecondShift + 2;
  alignas(16) static constexpr int16_t kOddFactors[8] = {
      kOfTwo[1], kOfTwo[7], kOfTwo[1], kOfTwo[7], kOfTwo[3], kOfTwo[5], kOfTwo[3], kOfTwo[5]};
  alignas(16) static constexpr uint8_t kRowByRow[16] = {0, 1, 8, 9, 2, 3, 10, 11,
                                                        0, 1, 8, 9, 2, 3, 10, 11};
  const V32 first = hn::BitCast(d32, rows[0]);
  const V32 second = hn::BitCast(d32, rows[1]);
  // From each row, takes pair 0 and the next pair, which has no effect; then pairs 2 and 3.
  const V16 even = hn::BitCast(d16, hn::InterleaveLower(d32, first, second));
  const V16 odd = hn::BitCast(d16, hn::InterleaveUpper(d32, first, second));
  const V32 halves = multiply(odd, hn::LoadDup128(d16, kOddFactors));
  const V32 sum = hn::Add(halves, hn::Shuffle1032(halves));
  const V32 zero = hn::Add(widen<2>(even), rounding<kShift>());
  const V16 columns = hn::ReorderDemote2To(d16, hn::ShiftRight<kShift>(hn::Add(zero, sum)),
                                           hn::ShiftRight<kShift>(hn::Sub(zero, sum)));
  return hn::BitCast(d16,
                     hn::TableLookupBytes(hn::BitCast(d8, columns), hn::LoadDup128(d8, kRowByRow)));
}

HWY_INLINE void store_two(V16 samples, const Group& group) {
  alignas(64) uint8_t bytes[16 * kBlocks];
  hn::Store(pack(samples, samples), d8, bytes);
  for (size_t i = 0; i < group.count; ++i) {
    __builtin_memcpy(group.samples + 2 * i, bytes + 16 * i, 2);
    __builtin_memcpy(group.samples + group.stride + 2 * i, bytes + 16 * i + 2, 2);
  }
}

HWY_INLINE bool transform_to_two(const Loaded& loaded, const Group& group) {
  V16 in[8];
  arrange_full(loaded, in);
  const bool easy = are_easy(in, 8);
  V32 first[2];
  V32 second[2];
  pass_to_two(in, first);
  pass_to_two(in + 4, second);
  const V16 rows[2] = {join<kFirstShift + 2>(first[0], second[0]),
                       join<kFirstShift + 2>(first[1], second[1])};
  const V16 samples = pass_rows_to_two(rows);
  const bool right =
      easy || (sums_are_below(kFirstSum, in) && blocks_are_below(kSecondSum, sum_sizes(rows, 2)) &&
               are_near(&samples, 1));
  if (right) store_two(samples, group);
  return right;
}

template <bool (*kTransform)(const Loaded&, const Group&), uint32_t kSide, bool kChecked>
HWY_INLINE void transform_group(const Group& group, const Dequantiser& dequantiser) {
  const Loaded loaded = dequantise<kChecked>(group, dequantiser);
  if (loaded.fits && kTransform(loaded, group)) {
    clear(group);
  } else {
    transform_plainly(group, dequantiser, kSide);
  }
}

HWY_INLINE void transform_to_one(const Group& group, const Dequantiser& dequantiser) {
  transform_plainly(group, dequantiser, 1);
}

template <bool (*kTransform)(const Loaded&, const Group&), uint32_t kSide>
HWY_INLINE void transform_side(const BlockRow& row, const Dequantiser& dequantiser) {
  dequantiser.may_overflow
      ? transform_groups<transform_group<kTransform, kSide, true>>(row, dequantiser)
      : transform_groups<transform_group<kTransform, kSide, false>>(row, dequantiser);
}

void transform_reduced(const BlockRow& row, const Dequantiser& dequantiser) {
  if (row.side == 4) {
    transform_side<transform_to_four, 4>(row, dequantiser);
  } else if (row.side == 2) {
    transform_side<transform_to_two, 2>(row, dequantiser);
  } else {
    transform_groups<transform_to_one>(row, dequantiser);
  }
}

}  // namespace
}  // namespace forebay::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forebay::jpeg {

HWY_EXPORT(transform_reduced);

void transform_reduced_row(const BlockRow& row, const Dequantiser& dequantiser) {
  HWY_DYNAMIC_DISPATCH(transform_reduced)(row, dequantiser);
}

}  // namespace forebay::jpeg
#endif  // HWY_ONCE
