// The pass along rows in groups of sixteen outputs: a row's 64 bytes where their pixels lie are one
// register. Needs AVX-512 F, BW, VBMI and VNNI; compiled with them, so nothing here may be an
// inline function that another file might be given.
#include <immintrin.h>

#include "image/blend.h"

namespace forebay::image {

namespace {

// kPairs: of all taps; 0: any number.
template <uint32_t kPairs>
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
    __m512i windows[kChannels];
    __m512i sums[kChannels];
    for (size_t c = 0; c < kChannels; ++c) {
      windows[c] = _mm512_loadu_si512(rows[c] + across.windows[group]);
      sums[c] = half;
    }
    __m512i places = _mm512_loadu_si512(across.places + group * 4 * kOutputs);
    const int16_t* const weights = across.weights + group * 2 * kOutputs;
#pragma GCC unroll 4
    for (uint32_t pair = 0; pair < pairs; ++pair) {
      const __m512i both = _mm512_loadu_si512(weights + pair * pair_stride);
      for (size_t c = 0; c < kChannels; ++c) {
        const __m512i pixels = _mm512_maskz_permutexvar_epi8(kLowBytes, places, windows[c]);
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

}  // namespace

void blend_sixteens_avx512(const Sixteens& across, const uint8_t* const* rows, uint8_t* out,
                           size_t out_stride) {
  if (across.pairs == 1) return blend<1>(across, rows, out, out_stride);
  if (across.pairs == 2) return blend<2>(across, rows, out, out_stride);
  if (across.pairs == 3) return blend<3>(across, rows, out, out_stride);
  blend<0>(across, rows, out, out_stride);
}

}  // namespace forebay::image
