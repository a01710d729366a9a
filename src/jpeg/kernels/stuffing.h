// Byte stuffing (T.81 B.1.1.5): in entropy-coded data, a zero follows every 0xFF that does not
// begin a marker. Finds markers, and copies data without the stuffing.
#pragma once

#include "base/bytes.h"
#include "jpeg/kernels/entropy.h"

namespace forebay::jpeg {

// Bytes that may be written after the copied data.
inline constexpr size_t kUnstuffedPadding = 64;

// Returns where the first marker from `at` on begins, or the size when there is none.
size_t find_marker(base::Bytes bits, size_t at);

struct Unstuffed {
  size_t marker = 0;  // the result of find_marker()
  size_t bytes = 0;   // copied bytes before the marker
};
// Copies the data before the marker to `to`, without the stuffing. `kernel` is the best instruction
// set that may be used.
Unstuffed copy_unstuffed(base::Bytes bits, size_t at, EntropyKernel kernel, uint8_t* to);

// Continues at *at and *to as long as at least 65 bytes are left. Returns true when *at is at a
// marker. It is in stuffing_avx512.cc, which may not use inline functions.
bool copy_unstuffed_avx512(const uint8_t* bits, size_t size, size_t* at, uint8_t** to);

}  // namespace forebay::jpeg
