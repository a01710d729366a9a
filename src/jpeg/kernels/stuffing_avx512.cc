// Removes stuffing from 64 bytes at a time. Needs AVX-512 F, BW and VBMI2. This file is compiled
// for them, so it must not contain or use inline functions that the linker could share with other
// files.
#include <immintrin.h>

#include "jpeg/kernels/stuffing.h"

namespace forebay::jpeg {

bool copy_unstuffed_avx512(const uint8_t* bits, size_t size, size_t* at, uint8_t** to) {
  constexpr size_t kBytes = 64;
  const __m512i mark = _mm512_set1_epi8(-1);
  while (*at + kBytes < size) {
    const __m512i data = _mm512_loadu_si512(bits + *at);
    const __m512i next = _mm512_loadu_si512(bits + *at + 1);
    const uint64_t marks = _mm512_cmpeq_epi8_mask(data, mark);
    const uint64_t markers = _mm512_mask_test_epi8_mask(marks, next, next);
    const uint64_t kept = ~(marks << 1);
    if (markers != 0) {
      // Keeps what is before the first marker.
      const uint64_t before = (markers & -markers) - 1;
      _mm512_storeu_si512(*to, _mm512_maskz_compress_epi8(kept & before, data));
      *to += __builtin_popcountll(kept & before);
      *at += static_cast<size_t>(__builtin_popcountll(before));
      return true;
    }
    _mm512_storeu_si512(*to, _mm512_maskz_compress_epi8(kept, data));
    *to += __builtin_popcountll(kept);
    *at += kBytes + (marks >> (kBytes - 1));
  }
  return false;
}

}  // namespace forebay::jpeg
