// Inverse DCTs to blocks of 4 x 4, 2 x 2 and 1 x 1 samples. Compiled once for each instruction set
// by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "jpeg/idct_reduced.cc"
#include <hwy/foreach_target.h>
// clang-format off: foreach_target comes first
#include <hwy/highway.h>
// clang-format on

#include "jpeg/idct_group-inl.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::jpeg::HWY_NAMESPACE {
namespace {

constexpr int kFirstShift = kConstBits - kPass1Bits;
constexpr int kSecondShift = kConstBits + kPass1Bits + 3;

// What a pass multiplies: frequency 0, 13 bits up, and pairs of the others.
struct Frequencies {
  V32 zero;
  V16 pair26;
  V16 pair71;
  V16 pair53;
};

template <bool kUpper>
HWY_INLINE Frequencies pair_rows(const V16* in) {
  return {widen<kUpper>(in[0]), interleave<kUpper>(in[2], in[6]), interleave<kUpper>(in[7], in[1]),
          interleave<kUpper>(in[5], in[3])};
}

HWY_INLINE V32 multiply_odd(V16 pair71, V16 pair53, const int16_t* factors) {
  return hn::Add(multiply_pairs(pair71, factors[7], factors[1]),
                 multiply_pairs(pair53, factors[5], factors[3]));
}

// Four samples of four columns.
template <int kShift>
HWY_INLINE void pass_to_four(const Frequencies& in, V32* out) {
  constexpr int kFinalShift = kShift + 1;
  const V32 zero = hn::Add(hn::ShiftLeft<1>(in.zero), hn::Set(d32, 1 << (kFinalShift - 1)));
  const V32 even = multiply_pairs(in.pair26, kOfFour[0][2], kOfFour[0][6]);
  const V32 evens[2] = {hn::Add(zero, even), hn::Sub(zero, even)};
  for (size_t i = 0; i < 2; ++i) {
    const V32 odd = multiply_odd(in.pair71, in.pair53, kOfFour[i]);
    out[i] = hn::ShiftRight<kFinalShift>(hn::Add(evens[i], odd));
    out[3 - i] = hn::ShiftRight<kFinalShift>(hn::Sub(evens[i], odd));
  }
}

// Four rows of eight columns to eight columns of four, two in each vector.
HWY_INLINE void transpose_four(V16* v) {
  const V16 even_low = hn::InterleaveLower(d16, v[0], v[2]);
  const V16 even_high = hn::InterleaveUpper(d16, v[0], v[2]);
  const V16 odd_low = hn::InterleaveLower(d16, v[1], v[3]);
  const V16 odd_high = hn::InterleaveUpper(d16, v[1], v[3]);
  v[0] = hn::InterleaveLower(d16, even_low, odd_low);
  v[1] = hn::InterleaveUpper(d16, even_low, odd_low);
  v[2] = hn::InterleaveLower(d16, even_high, odd_high);
  v[3] = hn::InterleaveUpper(d16, even_high, odd_high);
}

// Of even columns and odd ones.
HWY_INLINE V16 add_halves(V16 sums) {
  return hn::SaturatedAdd(sums, hn::BitCast(d16, hn::Shuffle1032(hn::BitCast(d32, sums))));
}

// For each block's rows, of 32 bits each, to become rows of all blocks.
struct RowPlaces {
  alignas(64) int32_t at[4 * kBlocks];
};
constexpr RowPlaces make_row_places() {
  RowPlaces out{};
  for (size_t i = 0; i < 4 * kBlocks; ++i) {
    out.at[i] = static_cast<int32_t>(i % kBlocks * 4 + i / kBlocks);
  }
  return out;
}
constexpr RowPlaces kRowPlaces = make_row_places();

// Two columns of four samples in each of two vectors.
HWY_INLINE void store_four(const V16* columns, const Group& group) {
  alignas(16) static constexpr uint8_t kTransposed[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                          2, 6, 10, 14, 3, 7, 11, 15};
  constexpr size_t kRowBytes = 4 * kBlocks;
  const V8 samples = hn::Add(pack(columns[0], columns[1]), hn::Set(d8, 128));
  const V8 rows = hn::TableLookupBytes(samples, hn::LoadDup128(d8, kTransposed));
  const V32 all =
      hn::TableLookupLanes(hn::BitCast(d32, rows), hn::SetTableIndices(d32, kRowPlaces.at));
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

template <bool kChecked>
HWY_INLINE void transform_to_four(const Group& group, const Dequantiser& dequantiser) {
  V16 rows[8];
  const Loaded loaded = load_rows<kChecked>(group, dequantiser, rows);
  // Frequency 4 does not count.
  const V16 used[7] = {rows[0], rows[1], rows[2], rows[3], rows[5], rows[6], rows[7]};
  const bool easy = are_easy(used, 7);
  V32 low[4];
  V32 high[4];
  pass_to_four<kFirstShift>(pair_rows<false>(rows), low);
  pass_to_four<kFirstShift>(pair_rows<true>(rows), high);
  V16 v[4];
  for (size_t i = 0; i < 4; ++i) v[i] = hn::ReorderDemote2To(d16, low[i], high[i]);
  transpose_four(v);
  V32 out[4];
  pass_to_four<kSecondShift>({widen<false>(v[0]), interleave<false>(v[1], v[3]),
                              interleave<true>(v[3], v[0]), interleave<true>(v[2], v[1])},
                             out);
  const V16 columns[2] = {hn::ReorderDemote2To(d16, out[0], out[1]),
                          hn::ReorderDemote2To(d16, out[2], out[3])};
  const bool right =
      loaded.fits &&
      (easy || (are_below(kFirstSumMax, sum_sizes(used, 7)) &&
                are_below(kSecondSumMax, add_halves(sum_sizes(v, 4))) && are_near(columns, 2)));
  if (!right) {
    transform_plainly(group, dequantiser, 4);
    return;
  }
  clear(group);
  store_four(columns, group);
}

// Two rows of eight columns, from rows of coefficients.
template <bool kUpper>
HWY_INLINE void pass_to_two(const V16* in, V32* out) {
  constexpr int kFinalShift = kFirstShift + 2;
  const V32 zero =
      hn::Add(hn::ShiftLeft<2>(widen<kUpper>(in[0])), hn::Set(d32, 1 << (kFinalShift - 1)));
  const V32 odd =
      multiply_odd(interleave<kUpper>(in[7], in[1]), interleave<kUpper>(in[5], in[3]), kOfTwo);
  out[0] = hn::ShiftRight<kFinalShift>(hn::Add(zero, odd));
  out[1] = hn::ShiftRight<kFinalShift>(hn::Sub(zero, odd));
}
// Of a row of eight columns: sums of two, times the factors of odd ones.
HWY_INLINE V32 multiply_columns(V16 row) {
  V32 odd_sum = hn::Zero(d32);
  const V32 sum =
      hn::ReorderWidenMulAccumulate(d32, row, hn::LoadDup128(d16, kOfTwo), hn::Zero(d32), odd_sum);
  return hn::RearrangeToOddPlusEven(sum, odd_sum);
}

// Two rows of eight columns to the samples of each block, row by row, twice.
HWY_INLINE V16 pass_rows_to_two(const V16* rows) {
  constexpr int kFinalShift = kSecondShift + 2;
  alignas(16) static constexpr uint8_t kRowByRow[16] = {0, 1, 8, 9, 2, 3, 10, 11,
                                                        0, 1, 8, 9, 2, 3, 10, 11};
  const V32 first = multiply_columns(rows[0]);
  const V32 second = multiply_columns(rows[1]);
  // Of both rows, in lanes 0 and 1, and again in 2 and 3.
  const V32 halves =
      hn::Add(hn::InterleaveLower(d32, first, second), hn::InterleaveUpper(d32, first, second));
  const V32 odd = hn::Add(halves, hn::Shuffle1032(halves));
  const V32 zero = hn::Add(hn::ShiftLeft<2>(widen<false>(interleave<false>(rows[0], rows[1]))),
                           hn::Set(d32, 1 << (kFinalShift - 1)));
  const V16 columns = hn::ReorderDemote2To(d16, hn::ShiftRight<kFinalShift>(hn::Add(zero, odd)),
                                           hn::ShiftRight<kFinalShift>(hn::Sub(zero, odd)));
  return hn::BitCast(d16,
                     hn::TableLookupBytes(hn::BitCast(d8, columns), hn::LoadDup128(d8, kRowByRow)));
}

HWY_INLINE void store_two(V16 samples, const Group& group) {
  alignas(64) uint8_t bytes[16 * kBlocks];
  hn::Store(hn::Add(pack(samples, samples), hn::Set(d8, 128)), d8, bytes);
  for (size_t i = 0; i < group.count; ++i) {
    __builtin_memcpy(group.samples + 2 * i, bytes + 16 * i, 2);
    __builtin_memcpy(group.samples + group.stride + 2 * i, bytes + 16 * i + 2, 2);
  }
}

template <bool kChecked>
HWY_INLINE void transform_to_two(const Group& group, const Dequantiser& dequantiser) {
  V16 rows[8];
  const Loaded loaded = load_rows<kChecked>(group, dequantiser, rows);
  // Of the even frequencies only 0 counts.
  const V16 used[5] = {rows[0], rows[1], rows[3], rows[5], rows[7]};
  const bool easy = are_easy(used, 5);
  V32 low[2];
  V32 high[2];
  pass_to_two<false>(rows, low);
  pass_to_two<true>(rows, high);
  const V16 v[2] = {hn::ReorderDemote2To(d16, low[0], high[0]),
                    hn::ReorderDemote2To(d16, low[1], high[1])};
  const V16 samples = pass_rows_to_two(v);
  const bool right =
      loaded.fits &&
      (easy ||
       (are_below(kFirstSumMax, sum_sizes(used, 5)) &&
        hn::AllTrue(d32, hn::Lt(sum_of_block(sum_sizes(v, 2)), hn::Set(d32, kSecondSumMax))) &&
        are_near(&samples, 1)));
  if (!right) {
    transform_plainly(group, dequantiser, 2);
    return;
  }
  clear(group);
  store_two(samples, group);
}

HWY_INLINE void transform_to_one(const Group& group, const Dequantiser& dequantiser) {
  transform_plainly(group, dequantiser, 1);
}

void transform_reduced(const BlockRow& row, const Dequantiser& dequantiser) {
  const bool checked = dequantiser.may_overflow;
  if (row.side == 4) {
    checked ? transform_groups<transform_to_four<true>>(row, dequantiser)
            : transform_groups<transform_to_four<false>>(row, dequantiser);
  } else if (row.side == 2) {
    checked ? transform_groups<transform_to_two<true>>(row, dequantiser)
            : transform_groups<transform_to_two<false>>(row, dequantiser);
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
