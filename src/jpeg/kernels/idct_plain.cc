// The inverse DCTs in libjpeg's plain arithmetic, for blocks that may overflow the arithmetic of
// idct.cc.
#include <algorithm>

#include "jpeg/format/zigzag.h"
#include "jpeg/kernels/idct.h"
#include "jpeg/kernels/idct_constants.h"

namespace forebay::jpeg {

namespace {

// One pass with the arithmetic of jidctint.c, in 64 bits.
std::array<int64_t, 8> plain_pass(const std::array<int64_t, 8>& in, int shift) {
  const int64_t z1 = (in[2] + in[6]) * kFix0541;
  const int64_t tmp2 = z1 - in[6] * kFix1847;
  const int64_t tmp3 = z1 + in[2] * kFix0765;
  const int64_t tmp0 = (in[0] + in[4]) * (1 << kConstBits);
  const int64_t tmp1 = (in[0] - in[4]) * (1 << kConstBits);
  const std::array<int64_t, 4> even{tmp0 + tmp3, tmp1 + tmp2, tmp1 - tmp2, tmp0 - tmp3};

  const int64_t z5 = (in[7] + in[3] + in[5] + in[1]) * kFix1175;
  const int64_t z3 = z5 - (in[7] + in[3]) * kFix1961;
  const int64_t z4 = z5 - (in[5] + in[1]) * kFix0390;
  const int64_t outer = (in[7] + in[1]) * -kFix0899;
  const int64_t inner = (in[5] + in[3]) * -kFix2562;
  const std::array<int64_t, 4> odd{in[1] * kFix1501 + outer + z4, in[3] * kFix3072 + inner + z3,
                                   in[5] * kFix2053 + inner + z4, in[7] * kFix0298 + outer + z3};
  const int64_t rounding = int64_t{1} << (shift - 1);
  std::array<int64_t, 8> out{};
  for (size_t i = 0; i < 4; ++i) {
    out[i] = (even[i] + odd[i] + rounding) >> shift;
    out[7 - i] = (even[i] - odd[i] + rounding) >> shift;
  }
  return out;
}

// One pass with the arithmetic of jidctred.c, for kSide samples.
template <size_t kSide>
std::array<int64_t, kSide> reduced_pass(const std::array<int64_t, 8>& in, int shift) {
  constexpr int kMeanBits = kSide == 4 ? 1 : 2;
  const int64_t rounding = int64_t{1} << (shift + kMeanBits - 1);
  std::array<int64_t, kSide> out{};
  for (size_t i = 0; i < kSide / 2; ++i) {
    const auto& factors = kSide == 4 ? kOfFour[i] : kOfTwo;
    const int64_t even = in[0] * (1 << (kConstBits + kMeanBits)) + in[2] * factors[2] +
                         in[6] * factors[6] + rounding;
    const int64_t odd =
        in[1] * factors[1] + in[3] * factors[3] + in[5] * factors[5] + in[7] * factors[7];
    out[i] = (even + odd) >> (shift + kMeanBits);
    out[kSide - 1 - i] = (even - odd) >> (shift + kMeanBits);
  }
  return out;
}

template <size_t kSide>
std::array<int64_t, kSide> any_pass(const std::array<int64_t, 8>& in, int shift) {
  if constexpr (kSide == 8) {
    return plain_pass(in, shift);
  } else {
    return reduced_pass<kSide>(in, shift);
  }
}

// Clamps like libjpeg, which looks at ten bits, as a signed number around 128.
uint8_t limit(int64_t value) {
  const int64_t wrapped = ((value + 512) & 1023) - 512;
  return static_cast<uint8_t>(std::clamp<int64_t>(wrapped + 128, 0, 255));
}

template <size_t kSide>
void transform_block(const int16_t* coefficients, const Dequantiser& dequantiser, uint8_t* samples,
                     size_t stride) {
  std::array<std::array<int64_t, 8>, 8> columns{};
  for (size_t k = 0; k < 64; ++k) {
    const size_t at = kZigzagToNatural[k];
    columns[at % 8][at / 8] = int64_t{coefficients[k]} * dequantiser.steps[k];
  }
  std::array<std::array<int64_t, 8>, kSide> rows{};
  for (size_t x = 0; x < 8; ++x) {
    const auto column = any_pass<kSide>(columns[x], kConstBits - kPass1Bits);
    for (size_t y = 0; y < kSide; ++y) rows[y][x] = static_cast<int32_t>(column[y]);
  }
  for (size_t y = 0; y < kSide; ++y) {
    const auto row = any_pass<kSide>(rows[y], kConstBits + kPass1Bits + 3);
    for (size_t x = 0; x < kSide; ++x) samples[y * stride + x] = limit(row[x]);
  }
}

}  // namespace

void transform_plain(int16_t* coefficients, const Dequantiser& dequantiser, uint32_t side,
                     uint8_t* samples, size_t stride) {
  if (side == 8) {
    transform_block<8>(coefficients, dequantiser, samples, stride);
  } else if (side == 4) {
    transform_block<4>(coefficients, dequantiser, samples, stride);
  } else if (side == 2) {
    transform_block<2>(coefficients, dequantiser, samples, stride);
  } else {
    *samples = limit((int64_t{coefficients[0]} * dequantiser.steps[0] + 4) >> 3);
  }
  std::fill_n(coefficients, 64, int16_t{0});
}

Dequantiser make_dequantiser(const std::array<uint16_t, 64>& quant) {
  // The largest coefficient of baseline: 11 bits and a sign. Sums of hostile DC differences may be
  // any int16. But the bits of a DC coefficient beyond 16 change samples only by multiples of 1024,
  // and samples are taken modulo 1024.
  constexpr int kLargestCoefficient = 2048;
  Dequantiser out;
  uint16_t largest = 0;
  for (size_t k = 0; k < 64; ++k) {
    out.steps[k] = static_cast<int16_t>(quant[k]);
    largest = std::max(largest, quant[k]);
  }
  out.may_overflow = largest * kLargestCoefficient > INT16_MAX + 1;
  return out;
}

}  // namespace forebay::jpeg
