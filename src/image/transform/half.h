// Conversions between float32 and floating-point numbers of 16 bits.
#pragma once

#include <bit>
#include <cstdint>

namespace forebay::image {

// Converts to bfloat16, the upper half of a float32: to nearest, halves to even; not for NaN.
inline uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float from_bfloat16(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

// The difference between the exponents' biases of float32 and float16.
inline constexpr uint32_t kFloat16Rebias = (127 - 15) << 23;

// Converts to the binary16 of IEEE 754: to nearest, halves to even, infinite from 65520 on; not for
// NaN.
inline uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t size = bits & 0x7fffffff;
  uint32_t out = 0;
  if (size >= std::bit_cast<uint32_t>(65536.0F)) {
    out = 0x7c00;
  } else if (size >= kFloat16Rebias + (1 << 23)) {
    out = (size - kFloat16Rebias + 0xfff + (size >> 13 & 1)) >> 13;
  } else {
    // Below 2^-14 the steps of float16 are 2^-24, like those of float32 from 0.5 on.
    out =
        std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5F) - std::bit_cast<uint32_t>(0.5F);
  }
  return static_cast<uint16_t>(sign | out);
}

inline float from_float16(uint16_t value) {
  const uint32_t size = value & 0x7fff;
  float out = size < 0x400 ? static_cast<float>(size) * 0x1p-24F
                           : std::bit_cast<float>((size << 13) + kFloat16Rebias);
  if (size >= 0x7c00) out = std::bit_cast<float>(size << 13 | 0x7f800000);
  return value >> 15 != 0 ? -out : out;
}

}  // namespace forebay::image
