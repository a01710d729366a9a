// The functions agree with libm, the distributions with their known properties, and the numbers
// themselves with a digest.
#include "image/transform/distributions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"

namespace forebay::image {
namespace {

using base::Purpose;
using base::Random;

int64_t ulps_apart(double a, double b) {
  return std::abs(std::bit_cast<int64_t>(a) - std::bit_cast<int64_t>(b));
}

// Compares exact_exp() with libm for numbers from -exponent to exponent, and exact_log() for
// numbers from 2^-binary_exponent to 2^binary_exponent.
void expect_within_two_units(double exponent, double binary_exponent) {
  constexpr int kSteps = 400'000;
  int64_t exp_worst = 0;
  int64_t log_worst = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double x = -exponent + 2 * exponent * i / kSteps;
    const double y = std::exp2(-binary_exponent + 2 * binary_exponent * i / kSteps);
    const auto exp = static_cast<double>(std::exp(static_cast<long double>(x)));
    const auto log = static_cast<double>(std::log(static_cast<long double>(y)));
    exp_worst = std::max(exp_worst, ulps_apart(exact_exp(x), exp));
    log_worst = std::max(log_worst, ulps_apart(exact_log(y), log));
  }
  EXPECT_LE(exp_worst, 2);
  EXPECT_LE(log_worst, 2);
}

TEST(ExactMath, IsWithinTwoUnitsOfLibm) {
  expect_within_two_units(4, 6);
  expect_within_two_units(700, 1020);
  EXPECT_EQ(exact_exp(0), 1);
  EXPECT_EQ(exact_log(1), 0);
}

// Returns the largest distance of the sample's distribution function from `cdf`. In its unit, the
// probability of more than 1.95 is 0.001.
template <class Cdf>
double kolmogorov(std::vector<double> numbers, const Cdf& cdf) {
  std::sort(numbers.begin(), numbers.end());
  const auto count = static_cast<double>(numbers.size());
  double worst = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double expected = cdf(numbers[i]);
    worst = std::max({worst, std::abs(static_cast<double>(i) / count - expected),
                      std::abs(static_cast<double>(i + 1) / count - expected)});
  }
  return worst * std::sqrt(count);
}

TEST(DrawNormals, AreNormalAndIndependent) {
  Random random(1, Purpose::kTest);
  std::vector<double> numbers;
  double product = 0;
  constexpr int kPairs = 200'000;
  for (int i = 0; i < kPairs; ++i) {
    const auto [x, y] = draw_normals(random);
    numbers.insert(numbers.end(), {x, y});
    product += x * y;
  }
  EXPECT_LT(kolmogorov(numbers, [](double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }),
            1.95);
  EXPECT_LT(std::abs(product / kPairs), 4 / std::sqrt(double{kPairs}));
}

// Closed forms exist: alpha 1 is uniform, 1/2 the arcsine distribution, 2 and 3 are polynomials.
TEST(DrawBeta, HasTheDistributionFunction) {
  const auto numbers = [](double alpha) {
    Random random(2, Purpose::kTest, static_cast<uint64_t>(alpha * 10));
    std::vector<double> out(200'000);
    for (double& number : out) number = draw_beta(alpha, random);
    return out;
  };
  EXPECT_LT(kolmogorov(numbers(1), [](double x) { return x; }), 1.95);
  EXPECT_LT(kolmogorov(numbers(0.5),
                       [](double x) { return 2 / std::numbers::pi * std::asin(std::sqrt(x)); }),
            1.95);
  EXPECT_LT(kolmogorov(numbers(2), [](double x) { return x * x * (3 - 2 * x); }), 1.95);
  EXPECT_LT(kolmogorov(numbers(3), [](double x) { return x * x * x * (10 - 15 * x + 6 * x * x); }),
            1.95);
}

// The mean is 1/2 and the variance 1 / (4 (2 alpha + 1)), also where a gamma variable would
// underflow to 0.
TEST(DrawBeta, HasTheVarianceOfAnyAlpha) {
  for (const double alpha : {1e-300, 1e-5, 0.01, 0.1, 0.3, 7.0, 1000.0, 1e9}) {
    Random random(3, Purpose::kTest);
    constexpr int kCount = 100'000;
    double sum = 0;
    double square = 0;
    for (int i = 0; i < kCount; ++i) {
      const double number = draw_beta(alpha, random);
      ASSERT_TRUE(number >= 0 && number <= 1) << number;
      sum += number - 0.5;
      square += (number - 0.5) * (number - 0.5);
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / kCount, 0, 4 * std::sqrt(variance / kCount)) << alpha;
    EXPECT_NEAR(square / kCount, variance, 0.03 * variance) << alpha;
  }
}

// Forebay promises these seeded results on any compiler and machine.
TEST(Distributions, FirstThousandDrawsNeverChange) {
  base::ByteVector bytes;
  base::ByteWriter writer(&bytes);
  for (uint64_t step = 0; step < 1000; ++step) {
    Random random(42, Purpose::kMix, 0, step);
    const double beta = draw_beta(0.05 * static_cast<double>(1 + step % 40), random);
    const auto [x, y] = draw_normals(random);
    for (const double number : {beta, x, y}) writer.number(std::bit_cast<uint64_t>(number));
  }
  EXPECT_EQ(base::crc32c(bytes), 0xD0FB06D5u);
}

}  // namespace
}  // namespace forebay::image
