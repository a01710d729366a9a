// Byte stuffing: T.81 B.1.1.5. In entropy-coded data a zero follows every 0xFF that is no marker's.
#pragma once

#include "base/bytes.h"
#include "jpeg/entropy.h"

namespace forebay::jpeg {

// Bytes that may be written behind the data.
inline constexpr size_t kUnstuffedPadding = 64;

// Where the first marker from `at` on begins; the size when there is none.
size_t find_marker(base::Bytes bits, size_t at);

struct Unstuffed {
  size_t marker = 0;  // as find_marker()
  size_t bytes = 0;   // of the data before it
};
// Copies the data before the marker to `to`, without the stuffing. `kernel`: the best that may be
// used.
Unstuffed copy_unstuffed(base::Bytes bits, size_t at, EntropyKernel kernel, uint8_t* to);

// Goes on at *at and *to as far as there are 64 bytes and one more. True when *at is at a marker.
// In stuffing_avx512.cc, which may use no inline functions.
bool copy_unstuffed_avx512(const uint8_t* bits, size_t size, size_t* at, uint8_t** to);

}  // namespace forebay::jpeg
