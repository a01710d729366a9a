// Groups of blocks that are transformed side by side: loads their coefficients, dequantises them
// and brings them from zigzag order into pairs of frequencies. Included once for each instruction
// set.
#if defined(FOREBAY_JPEG_IDCT_LOAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOREBAY_JPEG_IDCT_LOAD_INL_H_
#undef FOREBAY_JPEG_IDCT_LOAD_INL_H_
#else
#define FOREBAY_JPEG_IDCT_LOAD_INL_H_
#endif

#include <hwy/highway.h>

#include "jpeg/format/zigzag.h"
#include "jpeg/kernels/idct.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::jpeg::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Each 128-bit lane of a vector belongs to one block.
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
  int16_t* coefficients[kBlocks];  // after `count`, the last block is repeated
  size_t count;
  uint8_t* samples;
  size_t stride;
};

// A block is sparse when it has no coefficient from this position on in zigzag order. All its
// coefficients then lie in the upper left quarter.
constexpr uint32_t kSparseEnd = 10;

// Frequencies in the order in which they are multiplied, as pairs of neighbouring 16-bit numbers.
// For each full block, a vector of coefficients holds the rows of pair i, and from their columns
// the first column of every pair (vector i) or the second (vector 4 + i). A sparse block has only
// rows and columns 0 to 3: one vector for rows 0 and 2, one for 1 and 3.
constexpr size_t kPairs[4][2] = {{0, 4}, {2, 6}, {1, 7}, {3, 5}};
constexpr size_t full_place(size_t vector, size_t lane) {
  return kPairs[vector % 4][lane % 2] * 8 + kPairs[lane / 2][vector / 4];
}
constexpr size_t sparse_place(size_t vector, size_t lane) {
  return (vector + lane % 2 * 2) * 8 + kPairs[lane / 2][0];
}

// Which coefficients of a group of blocks are present.
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

// Indices into the two halves of a block, for the lanes of four vectors and then of the other four.
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
// Indices into the first halves of two blocks, for their lanes of the first and then of the second
// vector.
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

// The lanes of four blocks for four vectors.
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

// Loads eight coefficients of each block.
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
  // Masks for the first two vectors: all ones after the DC coefficient, or after the sparse ones.
  alignas(16) static constexpr int16_t kAfterDc[8] = {0, -1, -1, -1, -1, -1, -1, -1};
  alignas(16) static constexpr int16_t kAfterSparse[8] = {0, 0, -1, -1, -1, -1, -1, -1};
  static_assert(kSparseEnd == 10);
  Loaded loaded;
  V16 ac = hn::Zero(d16);
  V16 high = hn::Zero(d16);  // the coefficients after the sparse ones
  V16 overflow = hn::Zero(d16);
  for (size_t i = 0; i < 8; ++i) {
    const V16 raw = load_lanes(d16, group.coefficients, i * 8);
    if (i == 0) ac = hn::And(raw, hn::LoadDup128(d16, kAfterDc));
    if (i == 1) ac = hn::Or(ac, raw);
    if (i == 1) high = hn::And(raw, hn::LoadDup128(d16, kAfterSparse));
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

// Where the lanes of a vector are found in the vector v of eight coefficients, as bytes; 0x80 for
// lanes found in another vector.
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

}  // namespace
}  // namespace forebay::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOREBAY_JPEG_IDCT_LOAD_INL_H_
