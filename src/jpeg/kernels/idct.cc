// The full inverse DCT, to 8 x 8 samples. Compiled once for each instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "jpeg/kernels/idct.cc"
#include <hwy/foreach_target.h>
// clang-format off: foreach_target comes first
#include <hwy/highway.h>
// clang-format on

#include "jpeg/kernels/idct_group-inl.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::jpeg::HWY_NAMESPACE {
namespace {

// The two halves of a pass: out[i] = even[i] + odd[i], out[7 - i] = even[i] - odd[i].
struct Halves {
  V32 even[4];
  V32 odd[4];
};

// The factors of frequencies 1, 7, 3 and 5.
constexpr int16_t kOdd[4][4] = {
    {kFix1175 - kFix0390 + kFix1501 - kFix0899, kFix1175 - kFix0899, kFix1175, kFix1175 - kFix0390},
    {kFix1175, kFix1175 - kFix1961, kFix1175 - kFix1961 + kFix3072 - kFix2562, kFix1175 - kFix2562},
    {kFix1175 - kFix0390, kFix1175, kFix1175 - kFix2562, kFix1175 - kFix0390 + kFix2053 - kFix2562},
    {kFix1175 - kFix0899, kFix1175 - kFix1961 + kFix0298 - kFix0899, kFix1175 - kFix1961,
     kFix1175}};
constexpr int16_t kOne = 1 << kConstBits;

template <int kShift>
HWY_INLINE Halves multiply_full(const V16* pairs) {
  const V32 sum = hn::Add(multiply_pairs(pairs[0], kOne, kOne), rounding<kShift>());
  const V32 difference = hn::Add(multiply_pairs(pairs[0], kOne, -kOne), rounding<kShift>());
  const V32 outer = multiply_pairs(pairs[1], kFix0541 + kFix0765, kFix0541);
  const V32 inner = multiply_pairs(pairs[1], kFix0541, kFix0541 - kFix1847);
  Halves halves{{hn::Add(sum, outer), hn::Add(difference, inner), hn::Sub(difference, inner),
                 hn::Sub(sum, outer)},
                {}};
  for (size_t i = 0; i < 4; ++i) {
    halves.odd[i] = hn::Add(multiply_pairs(pairs[2], kOdd[i][0], kOdd[i][1]),
                            multiply_pairs(pairs[3], kOdd[i][2], kOdd[i][3]));
  }
  return halves;
}

// Does the same as multiply_full() for frequencies 0 to 3 only: pairs[0] holds 0 and 2, pairs[1]
// holds 1 and 3.
template <int kShift>
HWY_INLINE Halves multiply_sparse(const V16* pairs) {
  constexpr int16_t kOuter = kFix0541 + kFix0765;
  Halves halves{
      {multiply_pairs(pairs[0], kOne, kOuter), multiply_pairs(pairs[0], kOne, kFix0541),
       multiply_pairs(pairs[0], kOne, -kFix0541), multiply_pairs(pairs[0], kOne, -kOuter)},
      {}};
  for (size_t i = 0; i < 4; ++i) {
    halves.even[i] = hn::Add(halves.even[i], rounding<kShift>());
    halves.odd[i] = multiply_pairs(pairs[1], kOdd[i][0], kOdd[i][2]);
  }
  return halves;
}

HWY_INLINE void add_halves(const Halves& halves, V32* sums) {
  for (size_t i = 0; i < 4; ++i) {
    sums[i] = hn::Add(halves.even[i], halves.odd[i]);
    sums[7 - i] = hn::Sub(halves.even[i], halves.odd[i]);
  }
}

// The first pass over sparse blocks. Gives pairs of columns, 0 and 2 before 1 and 3, for the upper
// rows and then for the lower rows.
HWY_INLINE void transform_sparse_columns(const V16* in, V16* pairs) {
  V32 sums[8];
  add_halves(multiply_sparse<kFirstShift>(in), sums);
  for (size_t half = 0; half < 2; ++half) {
    V32 rows[2];
    for (size_t i = 0; i < 2; ++i) {
      const V32* const two = sums + 4 * half + 2 * i;
      rows[i] = hn::BitCast(d32, hn::ReorderDemote2To(d16, hn::ShiftRight<kFirstShift>(two[0]),
                                                      hn::ShiftRight<kFirstShift>(two[1])));
    }
    const V32 low = hn::InterleaveLower(d32, rows[0], rows[1]);
    const V32 high = hn::InterleaveUpper(d32, rows[0], rows[1]);
    pairs[2 * half] = hn::BitCast(d16, hn::InterleaveLower(d32, low, high));
    pairs[2 * half + 1] = hn::BitCast(d16, hn::InterleaveUpper(d32, low, high));
  }
}

// The first pass over any blocks. Gives pairs of columns in the order of kPairs.
HWY_INLINE void transform_columns(const V16* in, V16* pairs) {
  V32 first[8];
  V32 second[8];
  add_halves(multiply_full<kFirstShift>(in), first);
  add_halves(multiply_full<kFirstShift>(in + 4), second);
  V16 rows[8];
  for (size_t i = 0; i < 8; ++i) rows[i] = join<kFirstShift>(first[i], second[i]);
  transpose_pairs(rows, pairs);
  transpose_pairs(rows + 4, pairs + 4);
}

// Samples of four rows as bytes. Each row has two vectors of two neighbouring columns: columns 0
// and 1 before 4 and 5, and 2 and 3 before 6 and 7.
struct HalfBlocks {
  V8 columns[2];
  bool near;  // set when kChecked
};
template <bool kChecked>
HWY_INLINE HalfBlocks finish(const Halves& halves) {
  V32 sums[8];
  add_halves(halves, sums);
  V16 joined[4];
  for (size_t i = 0; i < 4; ++i) joined[i] = join<kSecondShift>(sums[2 * i], sums[2 * i + 1]);
  return {{pack(joined[0], joined[2]), pack(joined[1], joined[3])},
          !kChecked || are_near(joined, 4)};
}

// Stores one row of samples of `count` blocks.
template <class V>
HWY_INLINE void store_row(V row, [[maybe_unused]] size_t count, uint8_t* to) {
#if HWY_TARGET <= HWY_AVX3
  _mm256_mask_storeu_epi64(to, static_cast<__mmask8>((1u << count) - 1), row);
#elif HWY_TARGET == HWY_AVX2
  if (count == kBlocks) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), row);
  } else {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), row);
  }
#else
  static_assert(kBlocks == 1);
  HWY_DASSERT(count == 1);
  hn::StoreU(row, hn::CappedTag<uint8_t, 8>(), to);
#endif
}

// Stores two rows of all blocks; the samples of each block are in its lane.
HWY_INLINE void store_two_rows(V8 rows, const Group& group, uint8_t* to) {
#if HWY_TARGET <= HWY_AVX3
  const __m512i apart =
      _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), rows.raw);
  store_row(_mm512_castsi512_si256(apart), group.count, to);
  store_row(_mm512_extracti64x4_epi64(apart, 1), group.count, to + group.stride);
#elif HWY_TARGET == HWY_AVX2
  const __m256i apart = _mm256_permute4x64_epi64(rows.raw, 0xD8);
  store_row(_mm256_castsi256_si128(apart), group.count, to);
  store_row(_mm256_extracti128_si256(apart, 1), group.count, to + group.stride);
#else
  const hn::Half<D8> half;
  store_row(hn::LowerHalf(half, rows), group.count, to);
  store_row(hn::UpperHalf(half, rows), group.count, to + group.stride);
#endif
}

HWY_INLINE void store_four_rows(const HalfBlocks& half, const Group& group, uint8_t* to) {
  const V16 first = hn::BitCast(d16, half.columns[0]);
  const V16 second = hn::BitCast(d16, half.columns[1]);
  const V32 low = hn::BitCast(d32, hn::InterleaveLower(d16, first, second));
  const V32 high = hn::BitCast(d32, hn::InterleaveUpper(d16, first, second));
  store_two_rows(hn::BitCast(d8, hn::InterleaveLower(d32, low, high)), group, to);
  store_two_rows(hn::BitCast(d8, hn::InterleaveUpper(d32, low, high)), group,
                 to + 2 * group.stride);
}

HWY_INLINE void store_blocks(const HalfBlocks& upper, const HalfBlocks& lower, const Group& group) {
  store_four_rows(upper, group, group.samples);
  store_four_rows(lower, group, group.samples + 4 * group.stride);
}

// Transforms blocks of one colour, from vectors that begin with the DC coefficient of each block.
// Returns false when a coefficient is too large.
HWY_INLINE bool transform_dc(V16 in, const Group& group) {
  constexpr int16_t kMost = 4000;  // samples below 512
  alignas(16) static constexpr uint8_t kFirst[16] = {0, 1, 0, 1, 0, 1, 0, 1,
                                                     0, 1, 0, 1, 0, 1, 0, 1};
  const V16 dc =
      hn::BitCast(d16, hn::TableLookupBytes(hn::BitCast(d8, in), hn::LoadDup128(d8, kFirst)));
  if (!hn::AllTrue(d16, hn::Lt(sum_sizes(&dc, 1), hn::Set(d16, kMost)))) return false;
  const V16 samples = hn::ShiftRight<3>(hn::Add(dc, hn::Set(d16, 128 * 8 + 4)));
  const V8 rows = pack(samples, samples);
  for (size_t y = 0; y < 8; y += 2) store_two_rows(rows, group, group.samples + y * group.stride);
  return true;
}

// Returns false when the coefficients need other arithmetic.
HWY_INLINE bool transform_sparse(const Loaded& loaded, const Group& group) {
  V16 in[2];
  arrange_sparse(loaded, in);
  if (loaded.extent == Extent::kDc) return transform_dc(in[0], group);
  if (!are_easy(in, 2)) return false;
  V16 pairs[4];
  transform_sparse_columns(in, pairs);
  const HalfBlocks upper = finish<false>(multiply_sparse<kSecondShift>(pairs));
  store_blocks(upper, finish<false>(multiply_sparse<kSecondShift>(pairs + 2)), group);
  return true;
}

HWY_INLINE bool transform_full(const Loaded& loaded, const Group& group) {
  V16 in[8];
  arrange_full(loaded, in);
  V16 pairs[8];
  if (are_easy(in, 8)) {
    transform_columns(in, pairs);
    const HalfBlocks upper = finish<false>(multiply_full<kSecondShift>(pairs));
    store_blocks(upper, finish<false>(multiply_full<kSecondShift>(pairs + 4)), group);
    return true;
  }
  if (!sums_are_below(kFirstSum, in)) return false;
  transform_columns(in, pairs);
  if (!sums_are_below(kSecondSum, pairs)) return false;
  const HalfBlocks upper = finish<true>(multiply_full<kSecondShift>(pairs));
  const HalfBlocks lower = finish<true>(multiply_full<kSecondShift>(pairs + 4));
  if (!upper.near || !lower.near) return false;
  store_blocks(upper, lower, group);
  return true;
}

template <bool kChecked>
HWY_INLINE void transform_group(const Group& group, const Dequantiser& dequantiser) {
  const Loaded loaded = dequantise<kChecked>(group, dequantiser);
  const bool done =
      loaded.fits && ((loaded.extent != Extent::kFull && transform_sparse(loaded, group)) ||
                      transform_full(loaded, group));
  if (done) {
    clear(group);
  } else {
    transform_plainly(group, dequantiser, 8);
  }
}

void transform(const BlockRow& row, const Dequantiser& dequantiser) {
  dequantiser.may_overflow ? transform_groups<transform_group<true>>(row, dequantiser)
                           : transform_groups<transform_group<false>>(row, dequantiser);
}

}  // namespace
}  // namespace forebay::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forebay::jpeg {

HWY_EXPORT(transform);

void transform_row(const BlockRow& row, const Dequantiser& dequantiser) {
  if (row.side < 8) {
    transform_reduced_row(row, dequantiser);
  } else {
    HWY_DYNAMIC_DISPATCH(transform)(row, dequantiser);
  }
}

}  // namespace forebay::jpeg
#endif  // HWY_ONCE
