// Draws must be the same everywhere, so the exp and log of libm, whose last bits differ between
// machines, are not used here. sqrt and + - * / are rounded exactly by IEEE 754.
#include "image/transform/distributions.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>

namespace forebay::image {
namespace {

static_assert(FLT_EVAL_METHOD == 0, "doubles must be rounded after each operation");

constexpr double kLn2High = 0x1.62e42feep-1;  // ends in zeros, so products with exponents are exact
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kInverseLn2 = 0x1.71547652b82fep+0;

// Returns 2^exponent, for exponents of normal numbers.
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// Draws a number above 0 and up to 1, which has a logarithm.
double draw_share(base::Random& random) { return 1 - random.uniform(); }

// Draws the logarithm of a number of the distribution Gamma(shape, 1); the number itself would
// underflow to 0 for small shapes (Marsaglia and Tsang, "A simple method for generating gamma
// variables", 2000; for shapes below 1, a number of Gamma(shape + 1) times u^(1 / shape)).
double draw_log_gamma(double shape, base::Random& random) {
  const double raised = shape < 1 ? exact_log(draw_share(random)) / shape : 0;
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {  // 95 % of the tries succeed
    const double x = draw_normals(random)[0];
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double log_v = exact_log(v);
    if (exact_log(draw_share(random)) < 0.5 * x * x + d * (1 - v + log_v)) {
      return exact_log(d) + log_v + raised;
    }
  }
}

constexpr double kFar = 700;  // the range of exact_exp()

// Beyond these limits, a distribution's numbers are 0 or 1, or all equal, to any useful precision.
double useful_shape(double alpha) { return std::clamp(alpha, 1e-12, 1e12); }

}  // namespace

// With x = k ln 2 + r, e^x = 2^k e^r; e^r, |r| < 0.35, is computed by its Taylor series.
double exact_exp(double x) {
  const double k = std::floor(x * kInverseLn2 + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 0;
  for (int n = 14; n >= 2; --n) sum = (sum + 1) * (r / n);
  return (1 + (r + r * sum)) * power_of_two(static_cast<int>(k));
}

// With x = 2^k (1 + f), 1 + f near 1, and s = f / (2 + f), log(1 + f) = 2 atanh(s), arranged like
// in e_log.c of FreeBSD so that the leading f stays exact.
double exact_log(double x) {
  auto bits = std::bit_cast<uint64_t>(x);
  int k = static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0x000f'ffff'ffff'ffff) | 0x3ff0'0000'0000'0000;
  double mantissa = std::bit_cast<double>(bits);
  if (mantissa > 0x1.6a09e667f3bcdp+0) {  // sqrt(2)
    mantissa *= 0.5;
    ++k;
  }
  const double f = mantissa - 1;
  const double s = f / (2 + f);
  const double z = s * s;
  double rest = 0;
  for (int n = 25; n >= 3; n -= 2) rest = (rest + 2.0 / n) * z;
  const double half_square = 0.5 * f * f;
  return k * kLn2High - ((half_square - (s * (half_square + rest) + k * kLn2Low)) - f);
}

// Uses Marsaglia's polar method.
std::array<double, 2> draw_normals(base::Random& random) {
  while (true) {  // 79 % of the tries succeed
    const double x = 2 * random.uniform() - 1;
    const double y = 2 * random.uniform() - 1;
    const double square = x * x + y * y;
    if (square >= 1 || square == 0) continue;
    const double stretch = std::sqrt(-2 * exact_log(square) / square);
    return {x * stretch, y * stretch};
  }
}

// Returns x / (x + y) of two gamma variables.
double draw_beta(double alpha, base::Random& random) {
  const double shape = useful_shape(alpha);
  const double x = draw_log_gamma(shape, random);
  const double y = draw_log_gamma(shape, random);
  if (y - x > kFar) return 0;
  if (x - y > kFar) return 1;
  return 1 / (1 + exact_exp(y - x));
}

// Divides gamma variables by their sum.
void draw_dirichlet(double alpha, base::Random& random, std::span<double> to) {
  const double shape = useful_shape(alpha);
  for (double& log : to) log = draw_log_gamma(shape, random);
  const double most = *std::max_element(to.begin(), to.end());
  double sum = 0;
  for (double& number : to) {
    number = most - number > kFar ? 0 : exact_exp(number - most);
    sum += number;
  }
  for (double& number : to) number /= sum;
}

}  // namespace forebay::image
