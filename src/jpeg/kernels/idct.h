// From blocks of coefficients to samples: dequantising and libjpeg's accurate integer inverse DCT
// (islow: Loeffler, Ligtenberg and Moschytz, ICASSP 1989, with 13-bit constants).
#pragma once

#include <cstddef>
#include <cstdint>

#include "jpeg/format/header.h"

namespace forebay::jpeg {

// The quantisation steps of a component, in zigzag order.
struct Dequantiser {
  alignas(64) std::array<int16_t, 64> steps{};
  // Whether a coefficient times its step may leave int16. Such blocks use libjpeg's plain
  // arithmetic, which has wider numbers.
  bool may_overflow = false;
};
Dequantiser make_dequantiser(const std::array<uint16_t, 64>& quant);

// A row of neighbouring blocks of side x side samples. Each block has 64 coefficients in zigzag
// order. The `across` blocks of an MCU follow each other; the blocks of the next MCU begin
// `mcu_stride` coefficients after those.
struct BlockRow {
  int16_t* coefficients = nullptr;  // set to zero by transform_row()
  uint32_t across = 1;
  size_t mcu_stride = 64;
  uint32_t count = 0;
  uint32_t side = 8;           // 8, or reduced (jidctred.c): 4, 2 or 1
  uint8_t* samples = nullptr;  // `side` rows, `stride` apart
  size_t stride = 0;
};

// Makes samples equal to those of libjpeg-turbo's plain code. Its SIMD code gives the same samples
// for everything that an encoder makes from 8-bit pixels.
void transform_row(const BlockRow& row, const Dequantiser& dequantiser);

// Transforms one block by libjpeg's plain arithmetic.
void transform_plain(int16_t* coefficients, const Dequantiser& dequantiser, uint32_t side,
                     uint8_t* samples, size_t stride);
// Does the same as transform_row() for a side below 8.
void transform_reduced_row(const BlockRow& row, const Dequantiser& dequantiser);

}  // namespace forebay::jpeg
