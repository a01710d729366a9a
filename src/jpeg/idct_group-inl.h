// What the inverse DCTs have in common: groups of blocks that are transformed side by side, their
// coefficients in pairs of frequencies, and what tells which arithmetic is enough. Included once
// for each instruction set.
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

// Frequencies in the order in which they are multiplied: two 16-bit numbers beside each other. A
// vector of a full block's coefficients holds of each block the rows of pair i, and of their
// columns the first of every pair (vector i) or the second (vector 4 + i). Of a sparse block there
// are but rows and columns 0 to 3: one vector for rows 0 and 2, one for 1 and 3.
constexpr size_t kPairs[4][2] = {{0, 4}, {2, 6}, {1, 7}, {3, 5}};
constexpr size_t full_place(size_t vector, size_t lane) {
  return kPairs[vector % 4][lane % 2] * 8 + kPairs[lane / 2][vector / 4];
}
constexpr size_t sparse_place(size_t vector, size_t lane) {
  return (vector + lane % 2 * 2) * 8 + kPairs[lane / 2][0];
}

// How much of a group of blocks is there.
enum class Extent : uint8_t { kDc, kSparse, kFull };

#if HWY_TARGET <= HWY_AVX3

// Dequantised coefficients, in zigzag order: half a block in each vector.
struct Loaded {
  __m512i halves[4][2];
  bool fits;  // with kChecked: each in 16 bits
  Extent extent;
};

template <bool kChecked>
HWY_INLINE Loaded dequantise(const Group& group, const Dequantiser& dequantiser) {
  constexpr __mmask32 kSparse = (1u << kSparseEnd) - 1;
  Loaded loaded;
  __m512i used[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  __mmask32 overflow = 0;
  for (size_t i = 0; i < 4; ++i) {
    for (size_t h = 0; h < 2; ++h) {
      const __m512i raw = _mm512_loadu_si512(group.coefficients[i] + 32 * h);
      used[h] = _mm512_or_si512(used[h], raw);
      const __m512i steps = _mm512_load_si512(dequantiser.steps.data() + 32 * h);
      __m512i& half = loaded.halves[i][h];
      half = _mm512_mullo_epi16(raw, steps);
      if constexpr (kChecked) {
        overflow |=
            _mm512_cmpneq_epi16_mask(_mm512_mulhi_epi16(raw, steps), _mm512_srai_epi16(half, 15));
      }
    }
  }
  loaded.fits = overflow == 0;
  const __mmask32 upper = _mm512_test_epi16_mask(used[0], used[0]);
  const bool sparse = (upper & ~kSparse) == 0 && _mm512_test_epi64_mask(used[1], used[1]) == 0;
  loaded.extent = !sparse ? Extent::kFull : upper > 1 ? Extent::kSparse : Extent::kDc;
  return loaded;
}

// Of a block's two halves: the lanes of four vectors, then of the other four.
struct FullIndices {
  alignas(64) uint16_t at[2][32];
};
constexpr FullIndices kFullIndices = [] {
  FullIndices out{};
  for (size_t i = 0; i < 64; ++i) {
    out.at[i / 32][i % 32] = kNaturalToZigzag[full_place(i / 8, i % 8)];
  }
  return out;
}();
// Of two blocks' first halves: their lanes of the first vector, then of the second.
struct SparseIndices {
  alignas(64) uint16_t at[32];
};
constexpr SparseIndices kSparseIndices = [] {
  SparseIndices out{};
  for (size_t i = 0; i < 32; ++i) {
    const size_t block = i / 8 % 2;
    const size_t place = sparse_place(i / 16, i % 8);
    out.at[i] = static_cast<uint16_t>(32 * block + kNaturalToZigzag[place]);
  }
  return out;
}();

// Four blocks' lanes of four vectors.
HWY_INLINE void gather_lanes(const __m512i* blocks, V16* vectors) {
  const __m512i a = _mm512_shuffle_i64x2(blocks[0], blocks[1], 0x44);
  const __m512i b = _mm512_shuffle_i64x2(blocks[2], blocks[3], 0x44);
  const __m512i c = _mm512_shuffle_i64x2(blocks[0], blocks[1], 0xEE);
  const __m512i d = _mm512_shuffle_i64x2(blocks[2], blocks[3], 0xEE);
  vectors[0] = V16{_mm512_shuffle_i64x2(a, b, 0x88)};
  vectors[1] = V16{_mm512_shuffle_i64x2(a, b, 0xDD)};
  vectors[2] = V16{_mm512_shuffle_i64x2(c, d, 0x88)};
  vectors[3] = V16{_mm512_shuffle_i64x2(c, d, 0xDD)};
}

HWY_INLINE void arrange_full(const Loaded& loaded, V16* vectors) {
  for (size_t v = 0; v < 2; ++v) {
    const __m512i indices = _mm512_load_si512(kFullIndices.at[v]);
    __m512i blocks[4];
    for (size_t i = 0; i < 4; ++i) {
      blocks[i] = _mm512_permutex2var_epi16(loaded.halves[i][0], indices, loaded.halves[i][1]);
    }
    gather_lanes(blocks, vectors + 4 * v);
  }
}

HWY_INLINE void arrange_sparse(const Loaded& loaded, V16* vectors) {
  const __m512i indices = _mm512_load_si512(kSparseIndices.at);
  __m512i two[2];
  for (size_t i = 0; i < 2; ++i) {
    two[i] =
        _mm512_permutex2var_epi16(loaded.halves[2 * i][0], indices, loaded.halves[2 * i + 1][0]);
  }
  vectors[0] = V16{_mm512_shuffle_i64x2(two[0], two[1], 0x44)};
  vectors[1] = V16{_mm512_shuffle_i64x2(two[0], two[1], 0xEE)};
}

#else

// Dequantised coefficients, in zigzag order: eight of every block in each vector.
struct Loaded {
  V16 zigzag[8];
  bool fits;  // with kChecked: each in 16 bits
  Extent extent;
};

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

HWY_INLINE bool is_zero(V16 v) { return hn::AllTrue(d16, hn::Eq(v, hn::Zero(d16))); }

template <bool kChecked>
HWY_INLINE Loaded dequantise(const Group& group, const Dequantiser& dequantiser) {
  // Of the first two vectors.
  alignas(16) static constexpr int16_t kBehindDc[8] = {0, -1, -1, -1, -1, -1, -1, -1};
  alignas(16) static constexpr int16_t kBehindSparse[8] = {0, 0, -1, -1, -1, -1, -1, -1};
  static_assert(kSparseEnd == 10);
  Loaded loaded;
  V16 ac = hn::Zero(d16);
  V16 high = hn::Zero(d16);  // behind the sparse ones
  V16 overflow = hn::Zero(d16);
  for (size_t i = 0; i < 8; ++i) {
    const V16 raw = load_lanes(d16, group.coefficients, i * 8);
    if (i == 0) ac = hn::And(raw, hn::LoadDup128(d16, kBehindDc));
    if (i == 1) ac = hn::Or(ac, raw);
    if (i == 1) high = hn::And(raw, hn::LoadDup128(d16, kBehindSparse));
    if (i > 1) high = hn::Or(high, raw);
    const V16 steps = hn::LoadDup128(d16, dequantiser.steps.data() + i * 8);
    loaded.zigzag[i] = hn::Mul(raw, steps);
    if constexpr (kChecked) {
      const V16 upper = hn::MulHigh(raw, steps);
      overflow = hn::Or(overflow, hn::Xor(upper, hn::ShiftRight<15>(loaded.zigzag[i])));
    }
  }
  loaded.fits = !kChecked || is_zero(overflow);
  loaded.extent = !is_zero(high) ? Extent::kFull : is_zero(ac) ? Extent::kDc : Extent::kSparse;
  return loaded;
}

// Where a vector's lanes lie in the vector v of eight coefficients, as bytes; 0x80 where they lie
// in another one.
struct Unzigzag {
  alignas(16) uint8_t bytes[8][8][16];  // by vector, by v
  bool used[8][8];
};
template <size_t (*kPlace)(size_t, size_t), size_t kVectors>
constexpr Unzigzag make_unzigzag() {
  Unzigzag table{};
  for (size_t vector = 0; vector < kVectors; ++vector) {
    for (size_t v = 0; v < 8; ++v) {
      for (size_t lane = 0; lane < 8; ++lane) {
        const size_t at = kNaturalToZigzag[kPlace(vector, lane)];
        const bool here = at / 8 == v;
        table.used[vector][v] |= here;
        for (size_t byte = 0; byte < 2; ++byte) {
          table.bytes[vector][v][lane * 2 + byte] =
              here ? static_cast<uint8_t>(at % 8 * 2 + byte) : 0x80;
        }
      }
    }
  }
  return table;
}
constexpr Unzigzag kFullUnzigzag = make_unzigzag<full_place, 8>();
constexpr Unzigzag kSparseUnzigzag = make_unzigzag<sparse_place, 2>();

template <const Unzigzag& kTable, size_t kVector, size_t kFrom = 0>
HWY_INLINE V16 add_parts(const V16* zigzag, V16 sum) {
  if constexpr (kFrom == 8) {
    return sum;
  } else {
    if constexpr (kTable.used[kVector][kFrom]) {
      const V8 part = hn::TableLookupBytesOr0(hn::BitCast(d8, zigzag[kFrom]),
                                              hn::LoadDup128(d8, kTable.bytes[kVector][kFrom]));
      sum = hn::Or(sum, hn::BitCast(d16, part));
    }
    return add_parts<kTable, kVector, kFrom + 1>(zigzag, sum);
  }
}

template <const Unzigzag& kTable, size_t kVectors, size_t kVector = 0>
HWY_INLINE void arrange(const Loaded& loaded, V16* vectors) {
  if constexpr (kVector < kVectors) {
    vectors[kVector] = add_parts<kTable, kVector>(loaded.zigzag, hn::Zero(d16));
    arrange<kTable, kVectors, kVector + 1>(loaded, vectors);
  }
}
HWY_INLINE void arrange_full(const Loaded& loaded, V16* vectors) {
  arrange<kFullUnzigzag, 8>(loaded, vectors);
}
HWY_INLINE void arrange_sparse(const Loaded& loaded, V16* vectors) {
  arrange<kSparseUnzigzag, 2>(loaded, vectors);
}

#endif

// The sum of the products of each pair.
HWY_INLINE V32 multiply(V16 pairs, V16 factors) {
  V32 odd_sum = hn::Zero(d32);
  const V32 sum = hn::ReorderWidenMulAccumulate(d32, pairs, factors, hn::Zero(d32), odd_sum);
  return hn::RearrangeToOddPlusEven(sum, odd_sum);
}
HWY_INLINE V32 multiply_pairs(V16 pairs, int16_t even, int16_t odd) {
  const uint32_t both = uint32_t{static_cast<uint16_t>(odd)} << 16 | static_cast<uint16_t>(even);
  return multiply(pairs, hn::BitCast(d16, hn::Set(d32, static_cast<int32_t>(both))));
}

// Sums of a pass, shifted down, as 16-bit lanes: `odd` between `even`.
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
// What is added to sums that are shifted, so that they are rounded; of the second pass also what
// makes them unsigned.
template <int kShift>
HWY_INLINE V32 rounding() {
  return hn::Set(d32, (1 << (kShift - 1)) + (kShift < kSecondShift ? 0 : 128 << kShift));
}

// Four rows of pairs of columns to a vector for each pair.
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

// Two vectors to bytes, saturated, those of `a` before those of `b` in each lane.
HWY_INLINE V8 pack(V16 a, V16 b) {
#if HWY_TARGET <= HWY_AVX3
  return V8{_mm512_packus_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_AVX2
  return V8{_mm256_packus_epi16(a.raw, b.raw)};
#else
  const hn::Half<D8> half;
  return hn::Combine(d8, hn::DemoteTo(half, b), hn::DemoteTo(half, a));
#endif
}

HWY_INLINE void clear(const Group& group) {
  for (int16_t* coefficients : group.coefficients) {
    for (size_t at = 0; at < 64; at += hn::MaxLanes(d16)) {
      hn::StoreU(hn::Zero(d16), d16, coefficients + at);
    }
  }
}

// The sums of the lanes of these vectors, as if all were positive; at most 0x7FFF.
HWY_INLINE V16 sum_sizes(const V16* v, size_t count) {
  const hn::RebindToUnsigned<D16> du16;
  auto sum = hn::BitCast(du16, hn::Abs(v[0]));  // -32768 becomes 32768
  for (size_t i = 1; i < count; ++i) sum = hn::SaturatedAdd(sum, hn::BitCast(du16, hn::Abs(v[i])));
  return hn::BitCast(d16, hn::Min(sum, hn::Set(du16, 0x7FFF)));
}
// Of each pair.
HWY_INLINE bool pairs_are_below(int32_t most, V16 sums) {
  return hn::AllTrue(d32, hn::Lt(multiply_pairs(sums, 1, 1), hn::Set(d32, most)));
}
// Of each block.
HWY_INLINE bool blocks_are_below(int32_t most, V16 sums) {
  const V32 pairs = multiply_pairs(sums, 1, 1);
  const V32 four = hn::Add(pairs, hn::Shuffle2301(pairs));
  return hn::AllTrue(d32, hn::Lt(hn::Add(four, hn::Shuffle1032(four)), hn::Set(d32, most)));
}

// A pass multiplies by less than 1.4, the first one also by 2^kPass1Bits. Where the sum of a
// block's coefficients stays below this, 16 bits hold what comes out of both passes, and samples,
// the sum times 1.4^2 / 8 at most, are near.
constexpr int32_t kEasySumMax = 2000;
// Where the sum of what is multiplied together stays below these, 32 bits hold its sums, and 16
// bits what comes out of the first pass.
constexpr int32_t kFirstSumMax = 5800;
constexpr int32_t kSecondSumMax = 32767;

HWY_INLINE bool are_easy(const V16* v, size_t count) {
  return blocks_are_below(kEasySumMax, sum_sizes(v, count));
}
// Of a full block: both halves of the columns, or of the rows.
HWY_INLINE bool sums_are_below(int32_t most, const V16* v) {
  return pairs_are_below(most, sum_sizes(v, 4)) && pairs_are_below(most, sum_sizes(v + 4, 4));
}

// Whether these samples are what libjpeg's plain code limits by saturating, as `pack` does. What is
// further away it takes modulo 1024.
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
