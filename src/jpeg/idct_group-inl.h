// What the inverse DCTs have in common: groups of blocks that are transformed side by side, their
// coefficients as rows, and what tells which arithmetic is enough. Included once for each
// instruction set.
#if defined(FOREBAY_JPEG_IDCT_GROUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOREBAY_JPEG_IDCT_GROUP_INL_H_
#undef FOREBAY_JPEG_IDCT_GROUP_INL_H_
#else
#define FOREBAY_JPEG_IDCT_GROUP_INL_H_
#endif

#include <hwy/highway.h>

#include "jpeg/idct.h"
#include "jpeg/idct_constants.h"
#include "jpeg/zigzag.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::jpeg::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A 128-bit lane of every vector belongs to one block.
using D16 = hn::CappedTag<int16_t, 32>;
using D8 = hn::Repartition<uint8_t, D16>;
using D32 = hn::Repartition<int32_t, D16>;
constexpr D16 d16;
constexpr D8 d8;
constexpr D32 d32;
using V16 = hn::Vec<D16>;
using V8 = hn::Vec<D8>;
using V32 = hn::Vec<D32>;
constexpr size_t kBlocks = hn::MaxLanes(d16) / 8;

// Blocks that are transformed together.
struct Group {
  int16_t* coefficients[kBlocks];  // behind `count`, those of the last one again
  size_t count;
  uint8_t* samples;
  size_t stride;
};

// A block is sparse when it has no coefficient from here on in zigzag order: all lie in the upper
// left quarter then.
constexpr uint32_t kSparseEnd = 10;

// load_rows() makes the rows of dequantised coefficients of a group of blocks.
struct Loaded {
  bool fits;    // with kChecked: each in 16 bits
  bool sparse;  // all blocks
};

#if HWY_TARGET <= HWY_AVX3

// Half of a block's rows, in their order, from its coefficients in zigzag order.
struct HalfRows {
  alignas(64) uint16_t at[2][32];
};
constexpr HalfRows make_half_rows() {
  HalfRows out{};
  for (size_t i = 0; i < 64; ++i) out.at[i / 32][i % 32] = kNaturalToZigzag[i];
  return out;
}
constexpr HalfRows kHalfRows = make_half_rows();

// Four blocks' rows of four: from a vector for each block to a vector for each row.
HWY_INLINE void gather_rows(const __m512i* blocks, V16* rows) {
  const __m512i a = _mm512_shuffle_i64x2(blocks[0], blocks[1], 0x44);
  const __m512i b = _mm512_shuffle_i64x2(blocks[2], blocks[3], 0x44);
  const __m512i c = _mm512_shuffle_i64x2(blocks[0], blocks[1], 0xEE);
  const __m512i d = _mm512_shuffle_i64x2(blocks[2], blocks[3], 0xEE);
  rows[0] = V16{_mm512_shuffle_i64x2(a, b, 0x88)};
  rows[1] = V16{_mm512_shuffle_i64x2(a, b, 0xDD)};
  rows[2] = V16{_mm512_shuffle_i64x2(c, d, 0x88)};
  rows[3] = V16{_mm512_shuffle_i64x2(c, d, 0xDD)};
}

template <bool kChecked>
HWY_INLINE Loaded load_rows(const Group& group, const Dequantiser& dequantiser, V16* rows) {
  constexpr __mmask32 kSparse = (1u << kSparseEnd) - 1;
  const __m512i upper = _mm512_load_si512(kHalfRows.at[0]);
  const __m512i lower = _mm512_load_si512(kHalfRows.at[1]);
  __m512i up[4];
  __m512i down[4];
  __m512i used[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  __mmask32 overflow = 0;
  for (size_t i = 0; i < 4; ++i) {
    __m512i half[2];
    for (size_t h = 0; h < 2; ++h) {
      const __m512i raw = _mm512_loadu_si512(group.coefficients[i] + 32 * h);
      used[h] = _mm512_or_si512(used[h], raw);
      const __m512i steps = _mm512_load_si512(dequantiser.steps.data() + 32 * h);
      half[h] = _mm512_mullo_epi16(raw, steps);
      if constexpr (kChecked) {
        overflow |= _mm512_cmpneq_epi16_mask(_mm512_mulhi_epi16(raw, steps),
                                             _mm512_srai_epi16(half[h], 15));
      }
    }
    up[i] = _mm512_permutex2var_epi16(half[0], upper, half[1]);
    down[i] = _mm512_permutex2var_epi16(half[0], lower, half[1]);
  }
  gather_rows(up, rows);
  gather_rows(down, rows + 4);
  const bool sparse = (_mm512_test_epi16_mask(used[0], used[0]) & ~kSparse) == 0 &&
                      _mm512_test_epi64_mask(used[1], used[1]) == 0;
  return {.fits = overflow == 0, .sparse = sparse};
}

#else

// The position in zigzag order of each coefficient of a row, as bytes of the vector v of eight
// coefficients; 0x80 where it lies in another vector.
struct Unzigzag {
  alignas(16) uint8_t bytes[8][8][16];  // by row, by vector
  bool used[8][8];
};
constexpr Unzigzag make_unzigzag() {
  Unzigzag table{};
  for (size_t row = 0; row < 8; ++row) {
    for (size_t vector = 0; vector < 8; ++vector) {
      for (size_t column = 0; column < 8; ++column) {
        const size_t at = kNaturalToZigzag[row * 8 + column];
        const bool here = at / 8 == vector;
        table.used[row][vector] |= here;
        for (size_t byte = 0; byte < 2; ++byte) {
          table.bytes[row][vector][column * 2 + byte] =
              here ? static_cast<uint8_t>(at % 8 * 2 + byte) : 0x80;
        }
      }
    }
  }
  return table;
}
constexpr Unzigzag kUnzigzag = make_unzigzag();

// Eight coefficients of each block.
template <class D>
HWY_INLINE hn::Vec<D> load_lanes(D d, int16_t* const* blocks, size_t at) {
  if constexpr (hn::MaxLanes(D()) == 8) {
    return hn::LoadU(d, blocks[0] + at);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_lanes(half, blocks + hn::MaxLanes(half) / 8, at),
                       load_lanes(half, blocks, at));
  }
}

template <size_t kRow, size_t kVector>
HWY_INLINE V16 add_part(const V16* zigzag, V16 sum) {
  if constexpr (kVector == 8) {
    return sum;
  } else {
    if constexpr (kUnzigzag.used[kRow][kVector]) {
      const V8 part = hn::TableLookupBytesOr0(hn::BitCast(d8, zigzag[kVector]),
                                              hn::LoadDup128(d8, kUnzigzag.bytes[kRow][kVector]));
      sum = hn::Or(sum, hn::BitCast(d16, part));
    }
    return add_part<kRow, kVector + 1>(zigzag, sum);
  }
}

template <size_t kRow = 0>
HWY_INLINE void unzigzag(const V16* zigzag, V16* rows) {
  if constexpr (kRow < 8) {
    rows[kRow] = add_part<kRow, 0>(zigzag, hn::Zero(d16));
    unzigzag<kRow + 1>(zigzag, rows);
  }
}

template <bool kChecked>
HWY_INLINE Loaded load_rows(const Group& group, const Dequantiser& dequantiser, V16* rows) {
  alignas(16) static constexpr int16_t kSecondSparse[8] = {0, 0, -1, -1, -1, -1, -1, -1};
  static_assert(kSparseEnd == 10);
  V16 zigzag[8];
  V16 used = hn::Zero(d16);
  V16 overflow = hn::Zero(d16);
  for (size_t i = 0; i < 8; ++i) {
    const V16 raw = load_lanes(d16, group.coefficients, i * 8);
    if (i == 1) used = hn::And(raw, hn::LoadDup128(d16, kSecondSparse));
    if (i > 1) used = hn::Or(used, raw);
    const V16 steps = hn::LoadDup128(d16, dequantiser.steps.data() + i * 8);
    zigzag[i] = hn::Mul(raw, steps);
    if constexpr (kChecked) {
      const V16 high = hn::MulHigh(raw, steps);
      overflow = hn::Or(overflow, hn::Xor(high, hn::ShiftRight<15>(zigzag[i])));
    }
  }
  unzigzag(zigzag, rows);
  return {.fits = !kChecked || hn::AllTrue(d16, hn::Eq(overflow, hn::Zero(d16))),
          .sparse = hn::AllTrue(d16, hn::Eq(used, hn::Zero(d16)))};
}

#endif

HWY_INLINE V32 multiply_pairs(V16 pairs, int16_t even, int16_t odd) {
  const V16 factors = hn::BitCast(
      d16,
      hn::Set(d32, static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint16_t>(odd)) << 16 |
                                        static_cast<uint16_t>(even))));
  V32 odd_sum = hn::Zero(d32);
  const V32 sum = hn::ReorderWidenMulAccumulate(d32, pairs, factors, hn::Zero(d32), odd_sum);
  return hn::RearrangeToOddPlusEven(sum, odd_sum);
}

// 16-bit lanes as the high half of 32 bits, shifted down to 13 bits up.
template <bool kUpper>
HWY_INLINE V32 widen(V16 v) {
  const V16 zero = hn::Zero(d16);
  const auto high = kUpper ? hn::InterleaveUpper(d16, zero, v) : hn::InterleaveLower(d16, zero, v);
  return hn::ShiftRight<16 - kConstBits>(hn::BitCast(d32, high));
}

template <bool kUpper>
HWY_INLINE V16 interleave(V16 a, V16 b) {
  return kUpper ? hn::InterleaveUpper(d16, a, b) : hn::InterleaveLower(d16, a, b);
}

// Two vectors to bytes, saturated, those of `a` before those of `b` in each lane.
HWY_INLINE V8 pack(V16 a, V16 b) {
#if HWY_TARGET <= HWY_AVX3
  return hn::BitCast(d8, hn::Vec<hn::RebindToSigned<D8>>{_mm512_packs_epi16(a.raw, b.raw)});
#elif HWY_TARGET == HWY_AVX2
  return hn::BitCast(d8, hn::Vec<hn::RebindToSigned<D8>>{_mm256_packs_epi16(a.raw, b.raw)});
#else
  const hn::Half<hn::RebindToSigned<D8>> half;
  return hn::BitCast(
      d8, hn::Combine(hn::RebindToSigned<D8>(), hn::DemoteTo(half, b), hn::DemoteTo(half, a)));
#endif
}

HWY_INLINE void clear(const Group& group) {
  for (int16_t* coefficients : group.coefficients) {
    for (size_t at = 0; at < 64; at += hn::MaxLanes(d16)) {
      hn::StoreU(hn::Zero(d16), d16, coefficients + at);
    }
  }
}

// Of a block's eight numbers, in each of its lanes.
HWY_INLINE V32 sum_of_block(V16 v) {
  const V32 pairs = multiply_pairs(v, 1, 1);
  const V32 sum = hn::Add(pairs, hn::Shuffle2301(pairs));
  return hn::Add(sum, hn::Shuffle1032(sum));
}

// The sum of all coefficients of a block, as if all were positive. A pass multiplies by less than
// 1.4, the first one also by 2^kPass1Bits: below kEasySumMax 16 bits hold all sums of both passes,
// and samples, the sum times 1.4^2 / 8 at most, are near.
constexpr int32_t kEasySumMax = 2000;
HWY_INLINE bool are_easy(const V16* v, size_t count) {
  const hn::RebindToUnsigned<D16> du16;
  auto sum = hn::BitCast(du16, hn::Abs(v[0]));  // of columns; -32768 becomes 32768
  for (size_t i = 1; i < count; ++i) sum = hn::SaturatedAdd(sum, hn::BitCast(du16, hn::Abs(v[i])));
  const V16 capped = hn::BitCast(d16, hn::Min(sum, hn::Set(du16, 0x7FFF)));
  return hn::AllTrue(d32, hn::Lt(sum_of_block(capped), hn::Set(d32, kEasySumMax)));
}

// Where the sum of what goes into a pass stays below these, 16 bits hold its own sums, and of the
// first pass what comes out.
constexpr int16_t kFirstSumMax = 5800;
constexpr int16_t kSecondSumMax = 32767;
// Of lanes.
HWY_INLINE V16 sum_sizes(const V16* v, size_t count) {
  V16 sum = hn::Zero(d16);
  for (size_t i = 0; i < count; ++i) {
    // Not Abs(), which leaves -32768 as it is.
    sum = hn::SaturatedAdd(sum, hn::Max(v[i], hn::SaturatedSub(hn::Zero(d16), v[i])));
  }
  return sum;
}
HWY_INLINE bool are_below(int16_t most, V16 v) {
  return hn::AllTrue(d16, hn::Lt(v, hn::Set(d16, most)));
}

// Whether these are what libjpeg's plain code limits by saturating, as `pack` does. What is further
// away it takes modulo 1024.
HWY_INLINE bool are_near(const V16* samples, size_t count) {
  V16 all = hn::Zero(d16);
  for (size_t i = 0; i < count; ++i) all = hn::Or(all, hn::Add(samples[i], hn::Set(d16, 512)));
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
