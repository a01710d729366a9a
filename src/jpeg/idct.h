// Blocks of coefficients to samples: dequantising and libjpeg's accurate integer inverse DCT
// (islow: Loeffler, Ligtenberg and Moschytz, ICASSP 1989, with 13-bit constants).
#pragma once

#include <cstddef>
#include <cstdint>

#include "jpeg/header.h"

namespace forebay::jpeg {

// A component's quantisation, in zigzag order.
struct Dequantiser {
  alignas(64) std::array<int16_t, 64> steps{};
  // Whether a coefficient times its step may leave int16. Such blocks go libjpeg's plain way,
  // whose numbers are wider.
  bool may_overflow = false;
};
Dequantiser make_dequantiser(const std::array<uint16_t, 64>& quant);

struct BlockPlace {
  int16_t* coefficients;  // 64, in zigzag order; zero afterwards
  uint8_t* samples;       // 8 rows of 8, `stride` apart
};

// The samples equal those of libjpeg-turbo's plain code. Its SIMD code gives the same for all that
// an encoder makes of 8-bit pixels.
void transform_blocks(std::span<const BlockPlace> blocks, const Dequantiser& dequantiser,
                      size_t stride);

// One block by libjpeg's plain arithmetic.
void transform_plain(const BlockPlace& block, const Dequantiser& dequantiser, size_t stride);

}  // namespace forebay::jpeg
