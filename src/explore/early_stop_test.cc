#include "explore/early_stop.h"

#include <gmock/gmock.h>

namespace forebay::explore {
namespace {

TEST(EarlyStop, NothingEndsWithoutARule) {
  EarlyStop none({});
  EXPECT_FALSE(none.add(0, 1, 1.0));
  EXPECT_FALSE(none.add(1, 1, 0.0));
}

TEST(EarlyStop, AtARungTheBestPartGoesOn) {
  EarlyStop asha({.kind = EarlyStopKind::kAsha, .grace = 1, .factor = 2});
  EXPECT_FALSE(asha.add(0, 1, 0.1)) << "the first to come is the best so far";
  EXPECT_TRUE(asha.add(1, 1, 0.05));
  EXPECT_FALSE(asha.add(2, 1, 0.2));
  EXPECT_FALSE(asha.add(3, 1, 0.15)) << "the second of four";
  EXPECT_TRUE(asha.add(4, 1, 0.12)) << "the third of five";
  EXPECT_FALSE(asha.add(5, 1, 0.15)) << "equal scores are equally good: the second of six";
}

TEST(EarlyStop, RungsAreAtMultiplesOfGrace) {
  EarlyStop asha({.kind = EarlyStopKind::kAsha, .grace = 2, .factor = 3});
  for (const uint32_t step : {1U, 2U, 3U, 4U, 6U, 7U, 12U, 18U, 19U}) {
    EXPECT_FALSE(asha.add(0, step, 1.0)) << step;
    const bool is_rung = step == 2 || step == 6 || step == 18;
    EXPECT_EQ(asha.add(1, step, 0.5), is_rung) << step;
  }
}

TEST(EarlyStop, TheLowestCanBeBest) {
  EarlyStop asha({.kind = EarlyStopKind::kAsha, .grace = 1, .factor = 2, .lowest_is_best = true});
  EXPECT_FALSE(asha.add(0, 1, 0.1));
  EXPECT_TRUE(asha.add(1, 1, 0.2));
  EXPECT_FALSE(asha.add(2, 1, 0.05));
}

TEST(EarlyStop, TheMedianIsThatOfCompleteBranches) {
  EarlyStop median({.kind = EarlyStopKind::kMedian, .grace = 2, .startup = 3});
  for (const Listed branch : {0U, 1U, 2U}) {
    for (const uint32_t step : {1U, 2U, 3U}) {
      EXPECT_FALSE(median.add(branch, step, 0.1 * static_cast<double>(branch + 1) * step));
    }
    if (branch < 2) median.complete(branch);
  }
  EXPECT_FALSE(median.add(3, 2, 0.0)) << "only two are complete";
  median.complete(2);
  EXPECT_FALSE(median.add(4, 1, 0.0)) << "before grace";
  EXPECT_FALSE(median.add(4, 2, 0.4)) << "equal to the median";
  EXPECT_TRUE(median.add(4, 3, 0.5)) << "its best is below 0.6";
  EXPECT_FALSE(median.add(5, 2, 0.7));
  EXPECT_FALSE(median.add(5, 3, 0.2)) << "its best counts, not its last";
}

}  // namespace
}  // namespace forebay::explore
