// Lists of float32 numbers: what training processes exchange.
#pragma once

#include <bit>
#include <span>

#include "base/bytes.h"

namespace forebay::train {

// Unlike with std::isfinite, the compiler makes SIMD instructions of this.
inline bool all_finite(std::span<const float> floats) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t odd = 0;
  for (const float value : floats) {
    const uint32_t exponent = std::bit_cast<uint32_t>(value) & kExponent;
    odd |= static_cast<uint32_t>(exponent == kExponent);
  }
  return odd == 0;
}

// What a strategy answers to such a gradient.
inline base::Status not_finite(uint64_t step) {
  return base::fail(base::Code::kInvalid,
                    "sync: the gradient of step {} is not finite; nothing of it was sent. Use a "
                    "lower learning rate, or a GradScaler, which leaves such steps out",
                    step);
}

// Appends the numbers as they are, in the bytes of Encoding::kFloat32.
inline void append(std::span<const float> floats, base::ByteVector* out) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(floats.data());
  out->insert(out->end(), bytes, bytes + floats.size_bytes());
}

}  // namespace forebay::train
