#include "prep/policy/rates.h"

#include <gtest/gtest.h>

namespace forebay::prep {
namespace {

Period period_of(int count, double ns) {
  Period period;
  for (int i = 0; i < count; ++i) period.add(ns);
  return period;
}

TEST(Period, IsUnknownBeforeTheFirstSample) {
  EXPECT_FALSE(Period().is_known());
  EXPECT_TRUE(period_of(1, 5).is_known());
  EXPECT_EQ(period_of(1, 5).ns(), 5);
}

TEST(Period, ASlowFirstStepCountsForNothing) {
  Period period = period_of(1, 50);
  period.add(5);
  EXPECT_EQ(period.ns(), 5);
}

TEST(Period, ASinglePauseChangesNothing) {
  Period period = period_of(10, 5);
  period.add(5000);
  EXPECT_EQ(period.ns(), 5);
  period.add(5);
  EXPECT_EQ(period.ns(), 5);
}

TEST(Period, FollowsAStepWithTwoSamples) {
  for (const double to : {1.0, 50.0}) {
    Period period = period_of(10, 5);
    period.add(to);
    period.add(to);
    EXPECT_EQ(period.ns(), to);
  }
}

TEST(Period, FollowsADrift) {
  Period period = period_of(3, 100);
  double ns = 100;
  for (int i = 0; i < 100; ++i) {
    ns *= 1.05;
    period.add(ns);
    EXPECT_NEAR(period.ns(), ns, 0.25 * ns);
  }
}

TEST(Period, AStepThatWasGivenUpDoublesTheExpectation) {
  Period period = period_of(10, 5);
  period.add_unfinished(4);
  EXPECT_EQ(period.ns(), 5);
  EXPECT_TRUE(period.is_sure());
  period.add_unfinished(20);
  EXPECT_EQ(period.ns(), 40);
  EXPECT_FALSE(period.is_sure());
  period.add(7);
  EXPECT_EQ(period.ns(), 7);
  EXPECT_TRUE(period.is_sure());
}

TEST(Period, AStepThatWasGivenUpOnceMayJustBeLate) {
  Period period;
  for (const double sample : {10.0, 10.0, 10.0}) period.add(sample);
  period.add_unfinished(12);
  EXPECT_EQ(period.ns(), 15);
  EXPECT_TRUE(period.is_sure());
  period.add_unfinished(16);
  EXPECT_EQ(period.ns(), 32);
  EXPECT_FALSE(period.is_sure());
}

TEST(PeriodOfMaker, AStepBeginsWhenTheOneBeforeIsReady) {
  PeriodOfMaker maker;
  maker.ready(10, 15);
  EXPECT_EQ(maker.step().ns(), 5);
  maker.ready(11, 20);  // the step was asked for during the first step
  EXPECT_EQ(maker.step().ns(), 5);
  maker.ready_unmeasured(100);
  EXPECT_EQ(maker.step().ns(), 5);
  EXPECT_EQ(maker.start_ns(90), 100);
  EXPECT_EQ(maker.start_ns(110), 110);
}

TEST(Period, TheLeastIsOfTheLastThree) {
  Period period;
  period.add(30);
  period.add(1);
  EXPECT_EQ(period.least_ns(), 0);  // the first steps are no measure
  period.add(5);
  EXPECT_EQ(period.least_ns(), 1);
  period.add(9);
  period.add(7);
  EXPECT_EQ(period.least_ns(), 5);
}

}  // namespace
}  // namespace forebay::prep
