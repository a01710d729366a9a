// Numbers are those of Box and Muller's formula, and the same bits with every instruction set.
#include "image/transform/normals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/bytes.h"
#include "base/checksum.h"
#include "jpeg/testing/keep_to.h"

namespace forebay::image {
namespace {

using base::Purpose;
using base::Random;

std::vector<float> drawn(Random random, size_t count) {
  Normals normals(random);
  std::vector<float> out(count);
  for (float& number : out) number = normals.next();
  return out;
}

TEST(Normals, FollowTheFormula) {
  Random random(7, Purpose::kTest, 1, 2);
  Random::BlockInput place = random.next_block();
  const std::vector<float> numbers = drawn(random, 40'000);
  for (size_t i = 0; i < numbers.size(); i += 2) {
    const auto block = base::philox(place.counter, place.key);
    if (i % 4 == 2) ++place.counter[0];
    const uint32_t radius_bits = block[i % 4];
    const uint32_t angle_bits = block[i % 4 + 1];
    const double share = (std::floor(radius_bits / 2.0) + 0.5) * 0x1p-31;
    const double radius = std::sqrt(-2 * std::log(share));
    // Points of a quarter are its middle's, turned by up to an eighth of a turn.
    const double turned = ((angle_bits & 0x3fffffff) * 0x1p-30 - 0.5) * std::numbers::pi / 2;
    const std::array<double, 2> point{std::cos(turned), std::sin(turned)};
    const bool swapped = (angle_bits >> 30 & 1) != 0;
    const double first_sign = angle_bits >> 31 != 0 ? -1 : 1;
    const double second_sign = swapped ? -first_sign : first_sign;
    // In float32, shares near 1 are rounded to multiples of 2^-24.
    const double near = 2e-6 * radius + std::min(4e-4, 1e-7 / radius);
    ASSERT_NEAR(numbers[i], radius * first_sign * point[swapped ? 1 : 0], near);
    ASSERT_NEAR(numbers[i + 1], radius * second_sign * point[swapped ? 0 : 1], near);
  }
}

TEST(Normals, AreStandardNormalAndIndependent) {
  const std::vector<float> numbers = drawn(Random(3, Purpose::kTest), 1'000'000);
  std::array<double, 4> moments{};
  double with_next = 0;
  double tail = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double x = numbers[i];
    moments[0] += x;
    moments[1] += x * x;
    moments[2] += x * x * x;
    moments[3] += x * x * x * x;
    if (i > 0) with_next += x * numbers[i - 1];
    tail += std::abs(x) > 3;
  }
  const auto count = static_cast<double>(numbers.size());
  // Five standard errors each.
  EXPECT_NEAR(moments[0] / count, 0, 0.005);
  EXPECT_NEAR(moments[1] / count, 1, 0.0071);
  EXPECT_NEAR(moments[2] / count, 0, 0.0195);
  EXPECT_NEAR(moments[3] / count, 3, 0.049);
  EXPECT_NEAR(with_next / count, 0, 0.005);
  EXPECT_NEAR(tail / count, 0.0026998, 0.00026);
}

TEST(Normals, AreTheSameBitsWithEveryInstructionSet) {
  std::vector<float> numbers[2];
  for (size_t best = 0; best < 2; ++best) {
    jpeg::keep_to(best != 0 ? jpeg::EntropyKernel::kAvx512 : jpeg::EntropyKernel::kAvx2);
    numbers[best] = drawn(Random(9, Purpose::kTest), 5000);
  }
  EXPECT_EQ(numbers[0], numbers[1]);
  const base::Bytes bytes(reinterpret_cast<const uint8_t*>(numbers[0].data()),
                          numbers[0].size() * sizeof(float));
  EXPECT_EQ(base::crc32c(bytes), 962030317u);
}

}  // namespace
}  // namespace forebay::image
