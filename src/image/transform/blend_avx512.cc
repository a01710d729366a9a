// The pass along rows in groups of sixteen outputs, where the bytes of a group are one register or
// two, and the pass down. Needs AVX-512 F, BW, VBMI and VNNI. This file is compiled for them, so it
// must not contain or use inline functions that the linker could share with other files.
#include <immintrin.h>

#include "image/transform/blend.h"

namespace forebay::image {

namespace {

// kPairs is the number of pairs of taps, 0 for any number; kRegisters is the number of registers
// for a window.
template <uint32_t kPairs, int kRegisters>
void blend(const Sixteens& across, const uint8_t* const* rows, uint8_t* out, size_t out_stride) {
  constexpr size_t kChannels = 3;
  constexpr size_t kOutputs = Across::kSixteen;
  constexpr __mmask64 kLowBytes = 0x5555'5555'5555'5555;
  const uint32_t pairs = kPairs == 0 ? across.pairs : kPairs;
  const size_t pair_stride = across.groups * 2 * kOutputs;
  const __m512i half = _mm512_set1_epi32(1 << (across.precision - 1));
  const __m128i precision = _mm_cvtsi32_si128(across.precision);
  const __m512i zero = _mm512_setzero_si512();
  for (size_t group = 0; group < across.groups; ++group) {
    __m512i windows[kRegisters][kChannels];
    __m512i sums[kChannels];
    for (size_t c = 0; c < kChannels; ++c) {
      const uint8_t* const window = rows[c] + across.windows[group];
      for (int i = 0; i < kRegisters; ++i) windows[i][c] = _mm512_loadu_si512(window + i * 64);
      sums[c] = half;
    }
    __m512i places = _mm512_loadu_si512(across.places + group * 4 * kOutputs);
    const int16_t* const weights = across.weights + group * 2 * kOutputs;
#pragma GCC unroll 4
    for (uint32_t pair = 0; pair < pairs; ++pair) {
      const __m512i both = _mm512_loadu_si512(weights + pair * pair_stride);
      for (size_t c = 0; c < kChannels; ++c) {
        const __m512i pixels =
            kRegisters == 1 ? _mm512_maskz_permutexvar_epi8(kLowBytes, places, windows[0][c])
                            : _mm512_maskz_permutex2var_epi8(kLowBytes, windows[0][c], places,
                                                             windows[kRegisters - 1][c]);
        sums[c] = _mm512_dpwssd_epi32(sums[c], pixels, both);
      }
      places = _mm512_add_epi8(places, _mm512_set1_epi8(2));
    }
    for (size_t c = 0; c < kChannels; ++c) {
      const __m512i values = _mm512_max_epi32(_mm512_sra_epi32(sums[c], precision), zero);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + c * out_stride + group * kOutputs),
                       _mm512_cvtusepi32_epi8(values));
    }
  }
}

// Makes 64 outputs. Interleaving stays inside 128-bit blocks, and packing undoes it in the same
// order.
__m512i blend_64(const Down& down, const uint8_t* const* rows, size_t at) {
  const __m512i zero = _mm512_setzero_si512();
  const __m512i half = _mm512_set1_epi32(1 << (down.precision - 1));
  __m512i sums[4] = {half, half, half, half};
  for (uint32_t tap = 0; tap < down.taps; tap += 2) {
    const __m512i a = _mm512_loadu_si512(rows[tap] + at);
    const __m512i b = _mm512_loadu_si512(rows[tap + 1] + at);
    int two;
    __builtin_memcpy(&two, down.weights + tap, sizeof two);
    const __m512i weights = _mm512_set1_epi32(two);
    const __m512i low = _mm512_unpacklo_epi8(a, b);
    const __m512i high = _mm512_unpackhi_epi8(a, b);
    sums[0] = _mm512_dpwssd_epi32(sums[0], _mm512_unpacklo_epi8(low, zero), weights);
    sums[1] = _mm512_dpwssd_epi32(sums[1], _mm512_unpackhi_epi8(low, zero), weights);
    sums[2] = _mm512_dpwssd_epi32(sums[2], _mm512_unpacklo_epi8(high, zero), weights);
    sums[3] = _mm512_dpwssd_epi32(sums[3], _mm512_unpackhi_epi8(high, zero), weights);
  }
  const __m128i precision = _mm_cvtsi32_si128(down.precision);
  for (__m512i& sum : sums) sum = _mm512_sra_epi32(sum, precision);
  return _mm512_packus_epi16(_mm512_packs_epi32(sums[0], sums[1]),
                             _mm512_packs_epi32(sums[2], sums[3]));
}

}  // namespace

void blend_down_avx512(const Down& down, const uint8_t* const* rows, size_t bytes, uint8_t* out) {
  for (size_t at = 0; at < bytes; at += 64) {
    _mm512_storeu_si512(out + at, blend_64(down, rows, at));
  }
}

void blend_sixteens_avx512(const Sixteens& across, const uint8_t* const* rows, uint8_t* out,
                           size_t out_stride) {
  if (across.window > 64) return blend<0, 2>(across, rows, out, out_stride);
  if (across.pairs == 1) return blend<1, 1>(across, rows, out, out_stride);
  if (across.pairs == 2) return blend<2, 1>(across, rows, out, out_stride);
  if (across.pairs == 3) return blend<3, 1>(across, rows, out, out_stride);
  blend<0, 1>(across, rows, out, out_stride);
}

}  // namespace forebay::image
