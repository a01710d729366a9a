// Byte stuffing: T.81 B.1.1.5. In entropy-coded data a zero follows every 0xFF that is no marker's.
#pragma once

#include <cstddef>

#include "base/bytes.h"

namespace forebay::jpeg {

// Bytes that may be written behind the data.
inline constexpr size_t kUnstuffedPadding = 32;

// Where the first marker from `at` on begins; the size when there is none.
size_t find_marker(base::Bytes bits, size_t at);

struct Unstuffed {
  size_t marker = 0;  // as find_marker()
  size_t bytes = 0;   // of the data before it
};
// Copies the data before the marker to `to`, without the stuffing.
Unstuffed copy_unstuffed(base::Bytes bits, size_t at, uint8_t* to);

}  // namespace forebay::jpeg
