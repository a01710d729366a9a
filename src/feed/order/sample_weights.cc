#include "feed/order/sample_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/random.h"

namespace forebay::feed {

using base::Code;
using base::fail;
using base::Purpose;
using base::Random;
using base::Result;

namespace {

constexpr int kTotalBits = 63;  // all weights together, as whole numbers

}  // namespace

// The largest weight gets as many bits as the sum of all weights has room for. Scaling by a power
// of two is exact, and rounding up keeps positive weights above 0.
Result<SampleWeights> SampleWeights::make(std::span<const double> weights) {
  double largest = 0;
  for (const double weight : weights) {
    if (!std::isfinite(weight) || weight < 0) {
      return fail(Code::kInvalid,
                  "dataset: {} is not a weight; weights are finite and not negative", weight);
    }
    largest = std::max(largest, weight);
  }
  if (largest == 0) {
    return fail(Code::kInvalid, "dataset: all its samples have the weight 0; nothing can be drawn");
  }
  int exponent = 0;
  std::frexp(largest, &exponent);
  const int scale = kTotalBits - static_cast<int>(std::bit_width(weights.size())) - exponent;
  SampleWeights out;
  out.ends_.reserve(weights.size());
  uint64_t end = 0;
  for (const double weight : weights) {
    const auto whole = static_cast<uint64_t>(std::ceil(std::ldexp(weight, scale)));
    end += weight > 0 ? std::max<uint64_t>(whole, 1) : 0;
    out.ends_.push_back(end);
  }
  return out;
}

Result<SampleWeights> SampleWeights::from_ends(std::vector<uint64_t> ends) {
  if (ends.empty() || ends.back() == 0 || !std::ranges::is_sorted(ends)) {
    return fail(Code::kInvalid,
                "dataset: sums of weights must not decrease, and the last one must not be 0");
  }
  SampleWeights out;
  out.ends_ = std::move(ends);
  return out;
}

uint64_t SampleWeights::draw(uint64_t seed, uint64_t epoch, uint64_t position) const {
  Random random(seed, Purpose::kDraw, epoch, position);
  const auto drawn = std::ranges::upper_bound(ends_, random.below(ends_.back()));
  return static_cast<uint64_t>(drawn - ends_.begin());
}

}  // namespace forebay::feed
