// Draws by weights: equal to an independent implementation's, and as often as the weights say.
#include "feed/order/sample_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>

#include "base/random.h"
#include "feed/order/sample_list.h"

namespace forebay::feed {
namespace {

using base::Code;

// The file is written by tests/golden/feed_draws.py.
TEST(SampleWeightsTest, EqualsTheIndependentOne) {
  std::ifstream file(FOREBAY_GOLDEN_DIR "/feed_draws.txt");
  int cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    std::istringstream in(line);
    uint64_t seed = 0;
    uint64_t epoch = 0;
    in >> seed >> epoch;
    std::vector<double> weights;
    for (std::string text; in >> text && text != ":";) {
      weights.push_back(std::strtod(text.c_str(), nullptr));
    }
    const SampleWeights drawn = SampleWeights::make(weights).value();
    EXPECT_EQ(drawn.size(), weights.size());
    uint64_t position = 0;
    for (uint64_t sample = 0; in >> sample; ++position) {
      EXPECT_EQ(drawn.draw(seed, epoch, position), sample) << cases << " at " << position;
    }
    EXPECT_EQ(position, 200u);
  }
  EXPECT_EQ(cases, 7);
}

// With k kinds of samples the statistic has the mean k - 1 and the deviation sqrt(2 (k - 1)).
TEST(SampleWeightsTest, DrawsAsOftenAsTheWeightsSay) {
  constexpr uint64_t kDraws = 50'000;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    base::Random random(seed, base::Purpose::kTest);
    std::vector<double> weights(2 + random.below(60));
    for (double& weight : weights) weight = random.below(4) == 0 ? 0 : 0.1 + random.uniform();
    weights.front() = 1;
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    const SampleList list =
        draw_samples(SampleWeights::make(weights).value(), seed, seed * 3, kDraws);
    std::vector<uint64_t> counts(weights.size());
    for (const uint64_t sample : list.samples) ++counts.at(sample);
    double statistic = 0;
    double kinds = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) {
        EXPECT_EQ(counts[i], 0u);
        continue;
      }
      const double expected = kDraws * weights[i] / total;
      statistic += std::pow(static_cast<double>(counts[i]) - expected, 2) / expected;
      ++kinds;
    }
    EXPECT_LE(std::abs(statistic - (kinds - 1)), 6 * std::sqrt(2 * kinds));
  }
}

TEST(SampleWeightsTest, OnlyProportionsCount) {
  const SampleWeights one = SampleWeights::make(std::vector<double>{1, 3, 0, 2}).value();
  const SampleWeights same = SampleWeights::make(std::vector<double>{4, 12, 0, 8}).value();
  for (uint64_t position = 0; position < 100; ++position) {
    EXPECT_EQ(one.draw(1, 2, position), same.draw(1, 2, position));
  }
}

TEST(SampleWeightsTest, EachTimeThatASampleComesItIsDrawnForAnotherNumber) {
  const SampleList list =
      draw_samples(SampleWeights::make(std::vector<double>{1, 0, 5}).value(), 1, 2, 300);
  std::vector<uint64_t> came(3);
  for (size_t at = 0; at < 300; ++at) {
    const uint64_t sample = list.samples[at];
    EXPECT_EQ(list.drawn_for[at], sample + 3 * came[sample]++);
  }
}

TEST(SampleWeightsTest, RefusesWhatAreNoWeights) {
  const auto code = [](std::vector<double> weights) {
    return SampleWeights::make(weights).error().code();
  };
  EXPECT_EQ(code({}), Code::kInvalid);
  EXPECT_EQ(code({0, 0}), Code::kInvalid);
  EXPECT_EQ(code({1, -1}), Code::kInvalid);
  EXPECT_EQ(code({1, std::nan("")}), Code::kInvalid);
  EXPECT_EQ(code({std::numeric_limits<double>::infinity()}), Code::kInvalid);
}

}  // namespace
}  // namespace forebay::feed
