// Compiled once for each instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "jpeg/idct.cc"
#include <hwy/foreach_target.h>
// clang-format off: foreach_target comes first
#include <hwy/highway.h>
// clang-format on

#include "jpeg/idct_group-inl.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::jpeg::HWY_NAMESPACE {
namespace {

struct Halves {
  V32 even[4];
  V32 odd[4];
};

// `half` is added to what becomes of the even rows, and so to all sums.
template <bool kUpper>
HWY_INLINE Halves multiply(const V16* in, V32 half) {
  const V16 even = interleave<kUpper>(in[2], in[6]);
  const V32 tmp2 = multiply_pairs(even, kFix0541, kFix0541 - kFix1847);
  const V32 tmp3 = multiply_pairs(even, kFix0541 + kFix0765, kFix0541);
  const V32 tmp0 = hn::Add(widen<kUpper>(hn::Add(in[0], in[4])), half);
  const V32 tmp1 = hn::Add(widen<kUpper>(hn::Sub(in[0], in[4])), half);

  const V16 z = interleave<kUpper>(hn::Add(in[7], in[3]), hn::Add(in[5], in[1]));
  const V32 z3 = multiply_pairs(z, kFix1175 - kFix1961, kFix1175);
  const V32 z4 = multiply_pairs(z, kFix1175, kFix1175 - kFix0390);
  const V16 pair71 = interleave<kUpper>(in[7], in[1]);
  const V16 pair53 = interleave<kUpper>(in[5], in[3]);
  return {{hn::Add(tmp0, tmp3), hn::Add(tmp1, tmp2), hn::Sub(tmp1, tmp2), hn::Sub(tmp0, tmp3)},
          {hn::Add(multiply_pairs(pair71, -kFix0899, kFix1501 - kFix0899), z4),
           hn::Add(multiply_pairs(pair53, -kFix2562, kFix3072 - kFix2562), z3),
           hn::Add(multiply_pairs(pair53, kFix2053 - kFix2562, -kFix2562), z4),
           hn::Add(multiply_pairs(pair71, kFix0298 - kFix0899, -kFix0899), z3)}};
}

// The same sums for in[4] to in[7] of zero.
template <bool kUpper>
HWY_INLINE Halves multiply_sparse(const V16* in, V32 half) {
  const V16 even = interleave<kUpper>(in[2], in[2]);
  const V32 tmp2 = multiply_pairs(even, kFix0541, 0);
  const V32 tmp3 = multiply_pairs(even, kFix0541 + kFix0765, 0);
  const V32 tmp0 = hn::Add(widen<kUpper>(in[0]), half);
  const V16 pair31 = interleave<kUpper>(in[3], in[1]);
  return {{hn::Add(tmp0, tmp3), hn::Add(tmp0, tmp2), hn::Sub(tmp0, tmp2), hn::Sub(tmp0, tmp3)},
          {multiply_pairs(pair31, kFix1175, kFix1175 - kFix0390 + kFix1501 - kFix0899),
           multiply_pairs(pair31, kFix1175 - kFix1961 + kFix3072 - kFix2562, kFix1175),
           multiply_pairs(pair31, kFix1175 - kFix2562, kFix1175 - kFix0390),
           multiply_pairs(pair31, kFix1175 - kFix1961, kFix1175 - kFix0899)}};
}

// Half of the columns of one pass.
template <bool kUpper, bool kSparse, int kShift>
HWY_INLINE void half_pass(const V16* in, V32* out) {
  const V32 half = hn::Set(d32, 1 << (kShift - 1));
  const Halves halves = kSparse ? multiply_sparse<kUpper>(in, half) : multiply<kUpper>(in, half);
  for (size_t i = 0; i < 4; ++i) {
    out[i] = hn::ShiftRight<kShift>(hn::Add(halves.even[i], halves.odd[i]));
    out[7 - i] = hn::ShiftRight<kShift>(hn::Sub(halves.even[i], halves.odd[i]));
  }
}

template <bool kSparse, int kShift>
HWY_INLINE void pass(V16* v) {
  V32 low[8];
  V32 high[8];
  half_pass<false, kSparse, kShift>(v, low);
  half_pass<true, kSparse, kShift>(v, high);
  // Inside each lane: four of low, four of high, saturated.
  for (size_t i = 0; i < 8; ++i) v[i] = hn::ReorderDemote2To(d16, low[i], high[i]);
}

// pass() and transpose() of sparse blocks: four rows of what come out are all there is.
template <int kShift>
HWY_INLINE void pass_sparse_columns(V16* v) {
  V32 low[8];
  half_pass<false, true, kShift>(v, low);
  V16 a[4];
  for (size_t i = 0; i < 4; ++i) {
    // Rows i and i + 4, four of each.
    const V16 rows = hn::ReorderDemote2To(d16, low[i], low[i + 4]);
    a[i] =
        hn::InterleaveLower(d16, rows, hn::BitCast(d16, hn::Shuffle1032(hn::BitCast(d32, rows))));
  }
  const V16 even_low = hn::InterleaveLower(d16, a[0], a[2]);
  const V16 even_high = hn::InterleaveUpper(d16, a[0], a[2]);
  const V16 odd_low = hn::InterleaveLower(d16, a[1], a[3]);
  const V16 odd_high = hn::InterleaveUpper(d16, a[1], a[3]);
  v[0] = hn::InterleaveLower(d16, even_low, odd_low);
  v[1] = hn::InterleaveUpper(d16, even_low, odd_low);
  v[2] = hn::InterleaveLower(d16, even_high, odd_high);
  v[3] = hn::InterleaveUpper(d16, even_high, odd_high);
}

HWY_INLINE void transpose(V16* v) {
  V16 a[8];
  for (size_t i = 0; i < 4; ++i) {
    a[2 * i] = hn::InterleaveLower(d16, v[i], v[i + 4]);
    a[2 * i + 1] = hn::InterleaveUpper(d16, v[i], v[i + 4]);
  }
  V16 b[8];
  for (size_t i = 0; i < 4; ++i) {
    b[2 * i] = hn::InterleaveLower(d16, a[i], a[i + 4]);
    b[2 * i + 1] = hn::InterleaveUpper(d16, a[i], a[i + 4]);
  }
  for (size_t i = 0; i < 4; ++i) {
    v[2 * i] = hn::InterleaveLower(d16, b[i], b[i + 4]);
    v[2 * i + 1] = hn::InterleaveUpper(d16, b[i], b[i + 4]);
  }
}

// Columns of 16 bits to rows of bytes: vector i holds rows 2i and 2i + 1. Each interleaving of two
// vectors moves the bit of the number of the column in which they differ below the others.
HWY_INLINE void pack_rows(const V16* columns, V8* rows) {
  const V8 centre = hn::Set(d8, 128);
  V8 a[2][2];
  for (size_t bit0 = 0; bit0 < 2; ++bit0) {
    const V8 low = pack(columns[bit0], columns[bit0 + 2]);
    const V8 high = pack(columns[bit0 + 4], columns[bit0 + 6]);
    const V8 x = hn::InterleaveLower(d8, low, high);
    const V8 y = hn::InterleaveUpper(d8, low, high);
    a[0][bit0] = hn::InterleaveLower(d8, x, y);
    a[1][bit0] = hn::InterleaveUpper(d8, x, y);
  }
  for (size_t half = 0; half < 2; ++half) {
    rows[2 * half] = hn::Add(hn::InterleaveLower(d8, a[half][0], a[half][1]), centre);
    rows[2 * half + 1] = hn::Add(hn::InterleaveUpper(d8, a[half][0], a[half][1]), centre);
  }
}

// The blocks' rows are stored as one.
HWY_INLINE void store_all(const V8* rows, uint8_t* to, size_t stride) {
  for (size_t i = 0; i < 4; ++i, to += 2 * stride) {
#if HWY_TARGET <= HWY_AVX3
    const __m512i apart =
        _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), rows[i].raw);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(apart));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + stride),
                        _mm512_extracti64x4_epi64(apart, 1));
#elif HWY_TARGET == HWY_AVX2
    const __m256i apart = _mm256_permute4x64_epi64(rows[i].raw, 0xD8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(apart));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + stride), _mm256_extracti128_si256(apart, 1));
#else
    alignas(16) uint8_t bytes[16];
    hn::Store(rows[i], d8, bytes);
    __builtin_memcpy(to, bytes, 8);
    __builtin_memcpy(to + stride, bytes + 8, 8);
#endif
  }
}

HWY_INLINE void store_rows(const V8* rows, const Group& group) {
  if (group.count == kBlocks) {
    store_all(rows, group.samples, group.stride);
    return;
  }
  alignas(64) uint8_t bytes[4][kBlocks * 16];
  for (size_t i = 0; i < 4; ++i) hn::Store(rows[i], d8, bytes[i]);
  for (size_t block = 0; block < group.count; ++block) {
    for (size_t row = 0; row < 8; ++row) {
      __builtin_memcpy(group.samples + row * group.stride + block * 8,
                       bytes[row / 2] + block * 16 + row % 2 * 8, 8);
    }
  }
}

template <bool kChecked>
HWY_INLINE void transform_group(const Group& group, const Dequantiser& dequantiser) {
  constexpr int kFirstShift = kConstBits - kPass1Bits;
  constexpr int kSecondShift = kConstBits + kPass1Bits + 3;
  V16 rows[8];
  const Loaded loaded = load_rows<kChecked>(group, dequantiser, rows);
  if (!loaded.fits) {
    transform_plainly(group, dequantiser, 8);
    return;
  }
  if (loaded.sparse && are_easy(rows, 4)) {
    pass_sparse_columns<kFirstShift>(rows);
    pass<true, kSecondShift>(rows);
  } else if (are_easy(rows, 8)) {
    pass<false, kFirstShift>(rows);
    transpose(rows);
    pass<false, kSecondShift>(rows);
  } else {
    bool right = are_below(kFirstSumMax, sum_sizes(rows, 8));
    pass<false, kFirstShift>(rows);
    transpose(rows);
    right = right && are_below(kSecondSumMax, sum_sizes(rows, 8));
    pass<false, kSecondShift>(rows);
    if (!right || !are_near(rows, 8)) {
      transform_plainly(group, dequantiser, 8);
      return;
    }
  }
  clear(group);
  V8 packed[4];
  pack_rows(rows, packed);
  store_rows(packed, group);
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
