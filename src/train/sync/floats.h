// Functions for lists of float32 numbers, which training processes exchange.
#pragma once

#include <bit>
#include <span>

#include "base/bytes.h"

namespace forebay::train {

// The compiler turns this loop into SIMD instructions, which it does not do with std::isfinite.
inline bool all_finite(std::span<const float> floats) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t odd = 0;
  for (const float value : floats) {
    const uint32_t exponent = std::bit_cast<uint32_t>(value) & kExponent;
    odd |= static_cast<uint32_t>(exponent == kExponent);
  }
  return odd == 0;
}

// The error of a strategy for a gradient that is not finite.
inline base::Status not_finite(uint64_t step) {
  return base::fail(base::Code::kInvalid,
                    "sync: the gradient of step {} is not finite; none of it was sent. Use a "
                    "lower learning rate, or a GradScaler, which skips such steps",
                    step);
}

// Appends the numbers in Encoding::kFloat32.
inline void append(std::span<const float> floats, base::ByteVector* out) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(floats.data());
  out->insert(out->end(), bytes, bytes + floats.size_bytes());
}

}  // namespace forebay::train
