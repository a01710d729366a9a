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

// Blocks of side x side samples beside each other. Their coefficients, 64 each in zigzag order, lie
// one behind the other for `across` blocks of an MCU; those of the next MCU begin `mcu_stride`
// behind these.
struct BlockRow {
  int16_t* coefficients = nullptr;  // zero afterwards
  uint32_t across = 1;
  size_t mcu_stride = 64;
  uint32_t count = 0;
  uint32_t side = 8;           // 8, or reduced (jidctred.c): 4, 2 or 1
  uint8_t* samples = nullptr;  // `side` rows, `stride` apart
  size_t stride = 0;
};

// The samples equal those of libjpeg-turbo's plain code. Its SIMD code gives the same for all that
// an encoder makes of 8-bit pixels.
void transform_row(const BlockRow& row, const Dequantiser& dequantiser);

// One block by libjpeg's plain arithmetic.
void transform_plain(int16_t* coefficients, const Dequantiser& dequantiser, uint32_t side,
                     uint8_t* samples, size_t stride);
// transform_row() for a side below 8.
void transform_reduced_row(const BlockRow& row, const Dequantiser& dequantiser);

}  // namespace forebay::jpeg
