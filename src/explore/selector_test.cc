#include "explore/selector.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/random.h"
#include "explore/score_shape.h"

namespace forebay::explore {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Selector, TopKeepsTheHighestAndTheEarlierOfEqualOnes) {
  Selector top({.kind = SelectorKind::kTop, .count = 2});
  EXPECT_THAT(top.offer(3, 0.5), IsEmpty());
  EXPECT_THAT(top.offer(4, 0.5), IsEmpty());
  EXPECT_THAT(top.offer(5, 0.5), ElementsAre(5));
  EXPECT_THAT(top.offer(1, 0.5), ElementsAre(4));
  EXPECT_THAT(top.offer(0, 0.9), ElementsAre(3));
  EXPECT_THAT(top.kept(), ElementsAre(0, 1));
}

TEST(Selector, FirstWaitsForEarlierBranches) {
  Selector first({.kind = SelectorKind::kFirst, .count = 2, .low = 0.5});
  EXPECT_THAT(first.offer(7, 0.9), IsEmpty());
  EXPECT_THAT(first.offer(2, 0.5), ElementsAre(2));  // above means greater
  EXPECT_EQ(first.enough_from(), UINT64_MAX);
  EXPECT_THAT(first.offer(5, 0.6), IsEmpty());
  EXPECT_EQ(first.enough_from(), 8);
  EXPECT_THAT(first.offer(3, 0.8), ElementsAre(7));
  EXPECT_EQ(first.enough_from(), 6);
  EXPECT_TRUE(first.is_hopeless(6, {}));
  EXPECT_FALSE(first.is_hopeless(4, {}));
  EXPECT_THAT(first.kept(), ElementsAre(3, 5));
}

TEST(Selector, WithinHasBothEnds) {
  Selector within({.kind = SelectorKind::kWithin, .low = 1, .high = 2});
  EXPECT_THAT(within.offer(0, 1), IsEmpty());
  EXPECT_THAT(within.offer(1, 2), IsEmpty());
  EXPECT_THAT(within.offer(2, 2.5), ElementsAre(2));
  EXPECT_TRUE(within.is_hopeless(3, {.low = 2.1, .high = kInfinity}));
  EXPECT_FALSE(within.is_hopeless(3, {.low = 2, .high = kInfinity}));
}

TEST(ScoreLine, KnowsWhatFollowsFromAPeak) {
  ScoreLine line(Shape::kPeak);
  EXPECT_TRUE(line.add(4, 0.5));
  EXPECT_TRUE(line.add(8, 0.3));
  EXPECT_EQ(line.bounds(9).high, 0.3);  // it falls
  EXPECT_EQ(line.bounds(6).low, 0.3);   // between two known scores
  EXPECT_EQ(line.bounds(2).high, kInfinity);
  EXPECT_TRUE(line.add(2, 0.4));
  EXPECT_EQ(line.bounds(0).high, 0.4);
  EXPECT_FALSE(line.add(9, 0.4));
}

std::vector<double> line_of(Shape shape, base::Random& random, uint32_t length) {
  std::vector<double> scores(length);
  // Few different scores, so that some are equal.
  for (double& score : scores) score = static_cast<double>(random.below(6));
  std::ranges::sort(scores);
  const auto peak = static_cast<ptrdiff_t>(random.below(length));
  if (shape == Shape::kPeak || shape == Shape::kValley)
    std::reverse(scores.begin() + peak, scores.end());
  if (shape == Shape::kPeak && scores[0] > scores[length - 1]) return scores;
  if (shape == Shape::kDecreasing || shape == Shape::kValley) {
    for (double& score : scores) score = -score;
  }
  return scores;
}

TEST(ScoreLine, EveryScoreOfTheShapeIsWithinItsBounds) {
  base::Random random(1, base::Purpose::kTest);
  for (int round = 0; round < 2000; ++round) {
    const auto shape = static_cast<Shape>(1 + random.below(4));
    const std::vector<double> scores = line_of(shape, random, 9);
    ScoreLine line(shape);
    for (uint32_t position = 0; position < scores.size(); ++position) {
      if (random.below(2) == 0) {
        ASSERT_TRUE(line.add(position, scores[position])) << "round " << round;
      }
    }
    for (uint32_t position = 0; position < scores.size(); ++position) {
      const ScoreBounds bounds = line.bounds(position);
      if (bounds.low == bounds.high) continue;
      ASSERT_LE(bounds.low, scores[position]) << "round " << round;
      ASSERT_GE(bounds.high, scores[position]) << "round " << round;
    }
  }
}

TEST(ScoreLine, ContradictionsAreSeenInAnyOrder) {
  base::Random random(2, base::Purpose::kTest);
  for (int round = 0; round < 2000; ++round) {
    std::vector<double> scores(5);
    for (double& score : scores) score = static_cast<double>(random.below(4));
    bool rises_again = false;  // brute force: somewhere a score is lower than on both sides
    for (size_t i = 0; i < 5; ++i) {
      for (size_t j = i + 1; j < 5; ++j) {
        for (size_t k = j + 1; k < 5; ++k)
          rises_again = rises_again || (scores[j] < scores[i] && scores[j] < scores[k]);
      }
    }
    std::vector<uint32_t> order = {0, 1, 2, 3, 4};
    base::shuffle(std::span(order), random);
    ScoreLine line(Shape::kPeak);
    bool is_right = true;
    for (const uint32_t position : order)
      is_right = line.add(position, scores[position]) && is_right;
    ASSERT_EQ(is_right, !rises_again) << "round " << round;
  }
}

}  // namespace
}  // namespace forebay::explore
