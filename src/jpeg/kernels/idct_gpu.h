// Dequantising and libjpeg's accurate integer inverse DCT of a block in one thread of a GPU; the
// twin of idct_plain.cc.
#pragma once

#include "jpeg/kernels/idct_constants.h"
#include "jpeg/kernels/region_gpu.h"

namespace forebay::jpeg::gpu {

// Transforms eight numbers, `step` apart, in place by the arithmetic of jidctint.c.
template <int kShift, class Wide>
FOREBAY_GPU void transform_eight(int32_t* at, int step) {
  const auto in = [&](int i) { return static_cast<Wide>(at[i * step]); };
  const Wide z1 = (in(2) + in(6)) * kFix0541;
  const Wide tmp2 = z1 - in(6) * kFix1847;
  const Wide tmp3 = z1 + in(2) * kFix0765;
  const Wide tmp0 = (in(0) + in(4)) * (1 << kConstBits);
  const Wide tmp1 = (in(0) - in(4)) * (1 << kConstBits);
  const Wide even[4] = {tmp0 + tmp3, tmp1 + tmp2, tmp1 - tmp2, tmp0 - tmp3};

  const Wide z5 = (in(7) + in(3) + in(5) + in(1)) * kFix1175;
  const Wide z3 = z5 - (in(7) + in(3)) * kFix1961;
  const Wide z4 = z5 - (in(5) + in(1)) * kFix0390;
  const Wide outer = (in(7) + in(1)) * -kFix0899;
  const Wide inner = (in(5) + in(3)) * -kFix2562;
  const Wide odd[4] = {in(1) * kFix1501 + outer + z4, in(3) * kFix3072 + inner + z3,
                       in(5) * kFix2053 + inner + z4, in(7) * kFix0298 + outer + z3};
  constexpr Wide kRounding = Wide{1} << (kShift - 1);
  for (int i = 0; i < 4; ++i) {
    at[i * step] = static_cast<int32_t>((even[i] + odd[i] + kRounding) >> kShift);
    at[(7 - i) * step] = static_cast<int32_t>((even[i] - odd[i] + kRounding) >> kShift);
  }
}

// Clamps like libjpeg, which looks at ten bits, as a signed number around 128.
FOREBAY_GPU inline uint8_t limit_sample(int32_t value) {
  const int32_t sample = ((value + 512) & 1023) - 512 + 128;
  return static_cast<uint8_t>(sample < 0 ? 0 : sample > 255 ? 255 : sample);
}

template <class Wide>
FOREBAY_GPU void transform_both_ways(int32_t* block) {
  for (int x = 0; x < 8; ++x) transform_eight<kConstBits - kPass1Bits, Wide>(block + x, 8);
  for (int y = 0; y < 8; ++y) transform_eight<kConstBits + kPass1Bits + 3, Wide>(block + 8 * y, 1);
}

// When the DC of a block and the sum of all its AC stay below these, which holds for everything
// that an encoder makes from pixels, all sums of jidctint.c stay below 2^31.
constexpr int32_t kNarrowDc = 10000;
constexpr int32_t kNarrowAc = 12000;

struct alignas(16) CoefficientEight {
  int16_t values[8];
};

// Transforms a block. `coefficients` and `steps` have 64 numbers in zigzag order; `samples` are
// eight rows, `stride` apart. Rows begin at multiples of 8 bytes, coefficients and steps at
// multiples of 16.
FOREBAY_GPU inline void transform_block(const int16_t* coefficients, const int16_t* steps,
                                        uint8_t* samples, uint64_t stride) {
  // The compiler knows all indices, so the block stays in registers.
  constexpr uint8_t kNatural[64] = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                    12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                    58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};
  int32_t block[64];
  int64_t ac = 0;
  for (int i = 0; i < 8; ++i) {
    // A thread of a GPU loads 16 bytes as fast as two.
    const auto eight = reinterpret_cast<const CoefficientEight*>(coefficients)[i];
    const auto eight_steps = reinterpret_cast<const CoefficientEight*>(steps)[i];
    for (int k = 0; k < 8; ++k) {
      const int32_t value = eight.values[k] * eight_steps.values[k];
      block[kNatural[8 * i + k]] = value;
      ac += value < 0 ? -value : value;
    }
  }
  const int32_t dc = block[0] < 0 ? -block[0] : block[0];
  ac -= dc;
  if (dc <= kNarrowDc && ac <= kNarrowAc) {
    transform_both_ways<int32_t>(block);
  } else {
    transform_both_ways<int64_t>(block);
  }
  for (int y = 0; y < 8; ++y) {
    uint64_t row = 0;
    for (int x = 0; x < 8; ++x) row |= uint64_t{limit_sample(block[8 * y + x])} << (8 * x);
    *reinterpret_cast<uint64_t*>(samples + uint64_t(y) * stride) = row;
  }
}

// Transforms block `number` among those that the region needs. `coefficients` belong to the region,
// `samples` to all regions.
FOREBAY_GPU inline void make_samples(const Region& region, uint32_t number,
                                     const int16_t* coefficients, uint8_t* samples) {
  const uint32_t mcu = number / region.blocks;
  const uint32_t block = number % region.blocks;
  const uint32_t mcus_across = region.right - region.left;
  const Component& component = region.components[region.component_of[block]];
  const uint32_t x = mcu % mcus_across * component.mcu_width + region.x_of[block] * 8;
  const uint32_t y = mcu / mcus_across * component.mcu_height + region.y_of[block] * 8;
  transform_block(coefficients + uint64_t{number} * 64, component.steps,
                  samples + component.plane + y * component.stride + x, component.stride);
}

}  // namespace forebay::jpeg::gpu
