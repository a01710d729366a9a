#include "train/learners/averaging/sma.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>

#include "base/crew.h"
#include "base/random.h"

namespace forebay::train {
namespace {

using base::Code;
using testing::HasSubstr;

constexpr uint64_t kFloats = 3001;  // no multiple of what is averaged at a time
constexpr double kMomentum = 0.9;   // of the learners' own optimisers and of the central model

// Random numbers of one learner and step, from -0.5 to below 0.5.
std::vector<double> noise(uint64_t seed, uint64_t step, uint64_t learner) {
  base::Random random(seed, base::Purpose::kTest, static_cast<uint32_t>(step), learner);
  std::vector<double> out(kFloats);
  for (double& number : out) number = random.uniform() - 0.5;
  return out;
}

// The equations at the top of sma.h in double precision, written down a second time. Each learner
// minimises the distance from a target with noisy gradients, by SGD with momentum.
struct Reference {
  std::vector<double> z;
  std::vector<double> z_previous = z;
  std::vector<std::vector<double>> weights = {};
  double highest_rate = 0;

  void begin(uint64_t learners) {
    z_previous = z;
    weights.assign(learners, z);
  }
  void step(double rate, double alpha, const std::vector<std::vector<double>>& moves) {
    highest_rate = std::max(highest_rate, rate);
    std::vector<double> next(kFloats);
    for (size_t i = 0; i < kFloats; ++i) {
      next[i] = z[i] + kMomentum * (z[i] - z_previous[i]);
      for (size_t j = 0; j < weights.size(); ++j) {
        const double correction = alpha * (weights[j][i] - z[i]);
        weights[j][i] += moves[j][i] - correction;
        next[i] += correction;
      }
    }
    z_previous = z;
    z = next;
    if (rate > highest_rate / 2) return;
    highest_rate = rate;
    begin(weights.size());
  }
};

// Learners with the numbers that a strategy works on.
struct Learners {
  std::vector<std::vector<float>> weights;
  std::vector<std::vector<double>> momentum;

  Learners(uint64_t count, std::span<const float> first)
      : weights(count, {first.begin(), first.end()}),
        momentum(count, std::vector<double>(first.size())) {}

  std::vector<LearnerNumbers> numbers() {
    std::vector<LearnerNumbers> out;
    for (auto& own : weights) out.push_back({.weights = own});
    return out;
  }
  // Returns how far the learners' optimisers move their weights in a step. The gradients are those
  // of |w|² / 2 with noise.
  std::vector<std::vector<double>> moves(uint64_t seed, uint64_t step, double rate) {
    std::vector<std::vector<double>> out;
    for (size_t j = 0; j < weights.size(); ++j) {
      std::vector<double>& move = momentum[j];
      const std::vector<double> random = noise(seed, step, j);
      for (size_t i = 0; i < move.size(); ++i) {
        move[i] = kMomentum * move[i] - rate * (weights[j][i] + random[i]);
      }
      out.push_back(move);
    }
    return out;
  }
  void update(const std::vector<std::vector<double>>& moves) {
    for (size_t j = 0; j < weights.size(); ++j) {
      for (size_t i = 0; i < weights[j].size(); ++i) {
        weights[j][i] = static_cast<float>(weights[j][i] + moves[j][i]);
      }
    }
  }
};

// Cuts the model into `count` ranges at random places.
std::vector<Range> cuts(uint32_t count, base::Random* random) {
  std::vector<uint64_t> ends = {kFloats};
  for (uint32_t i = 1; i < count; ++i) ends.push_back(random->below(kFloats + 1));
  std::ranges::sort(ends);
  std::vector<Range> out;
  uint64_t begin = 0;
  for (const uint64_t end : ends) {
    out.push_back({.begin = begin, .count = end - begin});
    begin = end;
  }
  return out;
}

// One step; `threads` threads average ranges that are cut at random.
void step(Averaging& averaging, Learners& learners, double rate,
          const std::vector<std::vector<double>>& moves, base::Crew& crew, uint32_t threads,
          base::Random* random) {
  const std::vector<LearnerNumbers> numbers = learners.numbers();
  averaging.begin_step(rate);
  std::vector<Range> ranges = cuts(threads, random);
  crew.start(threads, [&](uint32_t i) { averaging.before_update(numbers, ranges[i]); });
  crew.wait();
  learners.update(moves);
  ranges = cuts(threads, random);
  crew.start(threads, [&](uint32_t i) { averaging.after_update(numbers, ranges[i]); });
  crew.wait();
}

double largest_difference(std::span<const float> numbers, std::span<const double> expected) {
  double largest = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    largest = std::max(largest, std::abs(numbers[i] - expected[i]));
  }
  return largest;
}

std::vector<float> first_weights() {
  std::vector<float> out;
  for (const double number : noise(1, 0, 0)) out.push_back(static_cast<float>(2 * number));
  return out;
}

constexpr uint64_t kSteps = 300;

// Warms up, then falls to a tenth twice.
double rate_at(uint64_t step) {
  if (step < 20) return 0.005 * static_cast<double>(step + 1);
  return step < 110 ? 0.1 : step < 210 ? 0.01 : 0.001;
}

// The first weights are from -1 to 1, where the distance of two floats is up to 6e-8.
TEST(Sma, EqualsTheEquationsInDoublePrecision) {
  constexpr double kTolerance = 1e-6;
  constexpr std::array<uint32_t, 4> kCounts = {1, 2, 3, 8};
  for (const uint32_t count : kCounts) {
    SCOPED_TRACE(count);
    base::Random random(2, base::Purpose::kTest, count);
    base::Crew crew;
    const std::vector<float> first = first_weights();
    const auto averaging = *make_averaging({.learners = count}, first);
    Learners learners(count, first);
    Reference reference{.z = {first.begin(), first.end()}};
    reference.begin(count);
    for (uint64_t i = 0; i < kSteps; ++i) {
      const auto moves = learners.moves(3, i, rate_at(i));
      step(*averaging, learners, rate_at(i), moves, crew, 3, &random);
      reference.step(rate_at(i), 1 / static_cast<double>(learners.weights.size()), moves);
      ASSERT_LE(largest_difference(averaging->central(), reference.z), kTolerance) << i;
      for (size_t j = 0; j < learners.weights.size(); ++j) {
        ASSERT_LE(largest_difference(learners.weights[j], reference.weights[j]), kTolerance) << i;
      }
      if (i % 70 != 69) continue;
      const uint32_t other = kCounts[(i / 70 + count) % kCounts.size()];
      ASSERT_TRUE(averaging->resize(other).ok());
      learners = Learners(other, first);
      averaging->restart(learners.numbers(), {.begin = 0, .count = kFloats});
      reference.begin(other);
    }
  }
}

TEST(Sma, GivesTheSameBitsWithAnyThreads) {
  std::vector<std::vector<float>> central;
  for (const uint32_t threads : {1U, 2U, 7U}) {
    base::Random random(4, base::Purpose::kTest, threads);
    base::Crew crew;
    const auto averaging = *make_averaging({.learners = 3, .steps = 2}, first_weights());
    Learners learners(3, first_weights());
    for (uint64_t i = 0; i < 50; ++i) {
      step(*averaging, learners, 0.1, learners.moves(5, i, 0.1), crew, threads, &random);
    }
    central.emplace_back(averaging->central().begin(), averaging->central().end());
    central.push_back(learners.weights[2]);
  }
  EXPECT_EQ(central[0], central[2]);
  EXPECT_EQ(central[0], central[4]);
  EXPECT_EQ(central[1], central[3]);
  EXPECT_EQ(central[1], central[5]);
}

// Without updates, learners that begin apart come together below the bound and drift apart above
// it.
TEST(Sma, BoundOfTheRateIsWhereItBecomesUnstable) {
  for (const double momentum : {0.0, 0.5, 0.9}) {
    for (const uint32_t count : {1U, 2U, 3U, 8U, 64U}) {
      for (const bool is_stable : {true, false}) {
        const double rate = sma_rate_bound(momentum, count) * (is_stable ? 0.98 : 1.02);
        Sma sma({.learners = count, .rate = rate, .momentum = momentum}, std::vector<float>(1));
        Learners learners(count, std::vector<float>{1});
        const auto numbers = learners.numbers();
        for (int i = 0; i < 2000; ++i) {
          sma.begin_step(1);
          sma.before_update(numbers, {.begin = 0, .count = 1});
          sma.after_update(numbers, {.begin = 0, .count = 1});
          if (std::abs(sma.central()[0]) > 1e6F) break;
        }
        const double distance = std::abs(sma.central()[0] - learners.weights[0][0]);
        if (is_stable) {
          EXPECT_LT(distance, 1e-3) << momentum << " " << count;
        } else {
          EXPECT_GT(distance, 100) << momentum << " " << count;
        }
      }
      EXPECT_LT(sma_rate(momentum, count), sma_rate_bound(momentum, count));
    }
  }
  EXPECT_DOUBLE_EQ(sma_rate(0.9, 3), 1.0 / 3);
}

TEST(Sma, UnstableRatesAreRefusedWithTheBound) {
  const std::vector<float> weights(4);
  // The two cases that the publication's own settings contain: 0.1 is stable for 16 learners.
  EXPECT_TRUE(make_averaging({.learners = 16, .rate = 0.1}, weights));
  const auto refused = make_averaging({.learners = 64, .rate = 0.1}, weights);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalid);
  EXPECT_THAT(refused.error().message(), HasSubstr("--averaging-rate 0.1: 64 learners"));
  EXPECT_THAT(refused.error().message(), HasSubstr("below 0.05766"));
  EXPECT_FALSE(make_averaging({.rate = -0.1}, weights));
  EXPECT_FALSE(make_averaging({.rate = std::nan("")}, weights));
  EXPECT_FALSE(make_averaging({.momentum = 1}, weights));
  // A rate that is stable for few learners does not become unstable with more.
  const auto averaging = *make_averaging({.learners = 16, .rate = 0.1}, weights);
  const Status status = averaging->resize(64);
  EXPECT_THAT(status.message(), HasSubstr("below 0.05766"));
  EXPECT_EQ(averaging->learners(), 16U);
}

TEST(Sma, RestartsWhereTheRateHasFallenByHalf) {
  Sma sma({.learners = 2}, std::vector<float>(1));
  Learners learners(2, std::vector<float>(1));
  const auto numbers = learners.numbers();
  const Range all = {.begin = 0, .count = 1};
  // Each step moves the first learner; afterwards the learners are equal only after a restart.
  const auto restarts_at = [&](double rate) {
    sma.begin_step(rate);
    sma.before_update(numbers, all);
    learners.weights[0][0] += 1;
    sma.after_update(numbers, all);
    return learners.weights[0][0] == sma.central()[0] && learners.weights[1][0] == sma.central()[0];
  };
  // A warm-up, a slow fall, and a constant rate.
  for (const double rate : {0.1, 0.2, 0.4, 0.3, 0.21}) EXPECT_FALSE(restarts_at(rate)) << rate;
  EXPECT_TRUE(restarts_at(0.2));
  for (const double rate : {0.2, 0.11, 0.2}) EXPECT_FALSE(restarts_at(rate)) << rate;
  EXPECT_TRUE(restarts_at(0.02));
  EXPECT_TRUE(restarts_at(0));
  EXPECT_FALSE(restarts_at(0));
}

TEST(Sma, RestartEndsTheCentralMomentum) {
  Sma sma({.learners = 2}, std::vector<float>(1));
  Learners learners(2, std::vector<float>{1});
  const auto numbers = learners.numbers();
  const Range all = {.begin = 0, .count = 1};
  for (const double rate : {1.0, 0.1, 0.1}) {
    sma.begin_step(rate);
    sma.before_update(numbers, all);
    sma.after_update(numbers, all);
    // In the first step both learners are drawn to 0 by half of their distance, and z moves by the
    // sum, 1. In the second it moves back by 0.5, on by 0.9 of the first move, and restarts.
    EXPECT_EQ(sma.central()[0], rate == 1 ? 1 : 1.4F);
    EXPECT_EQ(learners.weights[1][0], rate == 1 ? 0.5F : 1.4F);
  }
}

// A run that continues from what kept() stored ends with the same bits, also between two averagings
// and before a restart.
TEST(Sma, KeepsWhatLaterStepsDependOn) {
  base::Crew crew;
  base::Random random(6, base::Purpose::kTest);
  const AveragingOptions options = {.learners = 3, .steps = 4};
  const auto rate_of = [](uint64_t step) {
    return step < 30 ? 0.1 : 0.06 - 0.001 * static_cast<double>(step);
  };
  const auto whole = *make_averaging(options, first_weights());
  Learners learners(3, first_weights());
  for (uint64_t i = 0; i < 27; ++i) {
    step(*whole, learners, rate_of(i), learners.moves(7, i, rate_of(i)), crew, 2, &random);
  }
  const auto resumed = *make_averaging(options, std::vector<float>(kFloats));
  Learners copies = learners;
  auto from = whole->kept();
  auto to = resumed->kept();
  ASSERT_EQ(from.size(), to.size());
  for (size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(from[i].name, to[i].name);
    std::ranges::copy(from[i].floats, to[i].floats.begin());
  }
  for (uint64_t i = 27; i < 50; ++i) {
    const auto moves = learners.moves(7, i, rate_of(i));
    step(*whole, learners, rate_of(i), moves, crew, 2, &random);
    step(*resumed, copies, rate_of(i), copies.moves(7, i, rate_of(i)), crew, 3, &random);
  }
  EXPECT_EQ(learners.weights, copies.weights);
  EXPECT_TRUE(std::ranges::equal(whole->central(), resumed->central()));
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FOREBAY_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FOREBAY_SANITIZED
#endif
#endif

TEST(Sma, MoreLearnersThanTheMemoryHoldsAreAnErrorThatChangesNothing) {
#ifdef FOREBAY_SANITIZED
  GTEST_SKIP() << "sanitizers end the program where memory ends";
#endif
  const std::vector<float> weights(16 << 20);
  const auto averaging = *make_averaging({.learners = 2}, weights);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit little = {.rlim_cur = 2ULL << 30, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &little), 0);
  const Status status = averaging->resize(64);
  const auto more = make_averaging({.learners = 64}, weights);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(status.code(), Code::kNoMemory);
  EXPECT_THAT(status.message(), HasSubstr("64 learners"));
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code(), Code::kNoMemory);
  EXPECT_EQ(averaging->learners(), 2U);
}

}  // namespace
}  // namespace forebay::train
