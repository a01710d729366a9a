// Looks up bytes in a table of 256 that stays in four registers. Needs AVX-512 F, BW and VBMI. This
// file is compiled for them, so it must not contain or use inline functions that the linker could
// share with other files.
#include <immintrin.h>

#include "image/augment/tone.h"

namespace forebay::image {

void look_up_avx512(const uint8_t* table, size_t count, uint8_t* bytes) {
  const __m512i parts[4] = {_mm512_loadu_si512(table), _mm512_loadu_si512(table + 64),
                            _mm512_loadu_si512(table + 128), _mm512_loadu_si512(table + 192)};
  for (size_t i = 0; i < count; i += 64) {
    const __m512i values = _mm512_loadu_si512(bytes + i);
    const __m512i low = _mm512_permutex2var_epi8(parts[0], values, parts[1]);
    const __m512i high = _mm512_permutex2var_epi8(parts[2], values, parts[3]);
    const __mmask64 is_high = _mm512_movepi8_mask(values);
    _mm512_storeu_si512(bytes + i, _mm512_mask_blend_epi8(is_high, low, high));
  }
}

}  // namespace forebay::image
