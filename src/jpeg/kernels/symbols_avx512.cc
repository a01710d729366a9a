// Makes the tokens of a block's AC coefficients, sixteen at a time. Needs AVX-512 F, BW, VL, CD,
// VBMI and VBMI2. This file is compiled for them, so it must not contain or use inline functions
// that the linker could share with other files.
#include <immintrin.h>

#include "jpeg/kernels/symbols.h"

namespace forebay::jpeg {
namespace {

constexpr int kLanes = 16;
constexpr int kLongestRun = 15;
constexpr int kLargest = 1023;  // the largest value of ten bits

constexpr struct Bytes64 {
  alignas(64) uint8_t at[64];
} kNumbers = [] {
  Bytes64 out{};
  for (uint8_t i = 0; i < 64; ++i) out.at[i] = i;
  return out;
}();

// The AC coefficients that are not zero, without gaps.
struct Nonzero {
  __m512i values[2];  // the first 32, and the others
  __m512i runs;       // the number of zeros before each value
  int count;
  bool easy;  // runs and values are within bounds
};

[[gnu::always_inline]] inline Nonzero compress(const int16_t* block) {
  const __m512i first = _mm512_loadu_si512(block);
  const __m512i second = _mm512_loadu_si512(block + 32);
  const __mmask32 in_first = _mm512_test_epi16_mask(first, first) & ~1u;
  const __mmask32 in_second = _mm512_test_epi16_mask(second, second);
  const __m512i upper = _mm512_maskz_compress_epi16(in_first, first);
  const __m512i lower = _mm512_maskz_compress_epi16(in_second, second);
  // Places the values of the second half after the `split` values of the first half.
  const int split = __builtin_popcount(in_first);
  const __mmask32 is_lower = ~0u << (split & 31) & -static_cast<uint32_t>(split < 32);
  const __m512i numbers = _mm512_load_si512(kNumbers.at);
  const __m512i lanes =
      _mm512_cvtepu8_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(kNumbers.at)));
  const __m512i from_lower =
      _mm512_add_epi16(lanes, _mm512_set1_epi16(static_cast<short>(32 - split)));
  Nonzero out;
  out.values[0] =
      _mm512_permutex2var_epi16(upper, _mm512_mask_mov_epi16(lanes, is_lower, from_lower), lower);
  out.values[1] = _mm512_permutexvar_epi16(from_lower, lower);
  out.count = split + __builtin_popcount(in_second);

  const __mmask64 all = static_cast<uint64_t>(in_second) << 32 | in_first;
  const __m512i positions = _mm512_maskz_compress_epi8(all, numbers);
  // The first run begins after the DC coefficient.
  const __m512i before = _mm512_maskz_permutexvar_epi8(
      ~uint64_t{1}, _mm512_sub_epi8(numbers, _mm512_set1_epi8(1)), positions);
  out.runs = _mm512_sub_epi8(_mm512_sub_epi8(positions, before), _mm512_set1_epi8(1));
  const __mmask64 used = out.count == 0 ? 0 : ~uint64_t{0} >> (64 - out.count);
  const __mmask64 far = _mm512_mask_cmpgt_epu8_mask(used, out.runs, _mm512_set1_epi8(kLongestRun));
  const __m512i most = _mm512_set1_epi16(kLargest);
  const __mmask32 large = (_mm512_cmpgt_epu16_mask(_mm512_abs_epi16(first), most) & ~1u) |
                          _mm512_cmpgt_epu16_mask(_mm512_abs_epi16(second), most);
  out.easy = far == 0 && large == 0;
  return out;
}

[[gnu::always_inline]] inline __m512i tokens_of(__m256i values, __m128i runs, uint32_t base) {
  const __m512i value = _mm512_cvtepi16_epi32(values);
  const __m512i one = _mm512_set1_epi32(1);
  const __m512i size =
      _mm512_sub_epi32(_mm512_set1_epi32(32), _mm512_lzcnt_epi32(_mm512_abs_epi32(value)));
  // Value bits: negative values as value - 1 in `size` bits (T.81 F.1.2.1).
  const __m512i bits = _mm512_and_si512(_mm512_add_epi32(value, _mm512_srai_epi32(value, 31)),
                                        _mm512_sub_epi32(_mm512_sllv_epi32(one, size), one));
  const __m512i symbol = _mm512_or_si512(size, _mm512_slli_epi32(_mm512_cvtepu8_epi32(runs), 4));
  const __m512i named = _mm512_or_si512(symbol, _mm512_set1_epi32(static_cast<int>(base)));
  return _mm512_or_si512(named, _mm512_slli_epi32(bits, 16));
}

}  // namespace

int ac_tokens_avx512(const int16_t* block, uint32_t base, Token* to) {
  const Nonzero nonzero = compress(block);
  if (!nonzero.easy) return -1;
  _mm512_storeu_si512(to, tokens_of(_mm512_castsi512_si256(nonzero.values[0]),
                                    _mm512_castsi512_si128(nonzero.runs), base));
  if (nonzero.count <= kLanes) return nonzero.count;
  _mm512_storeu_si512(to + kLanes, tokens_of(_mm512_extracti64x4_epi64(nonzero.values[0], 1),
                                             _mm512_extracti32x4_epi32(nonzero.runs, 1), base));
  if (nonzero.count <= 2 * kLanes) return nonzero.count;
  _mm512_storeu_si512(to + 2 * kLanes, tokens_of(_mm512_castsi512_si256(nonzero.values[1]),
                                                 _mm512_extracti32x4_epi32(nonzero.runs, 2), base));
  _mm512_storeu_si512(to + 3 * kLanes, tokens_of(_mm512_extracti64x4_epi64(nonzero.values[1], 1),
                                                 _mm512_extracti32x4_epi32(nonzero.runs, 3), base));
  return nonzero.count;
}

}  // namespace forebay::jpeg
