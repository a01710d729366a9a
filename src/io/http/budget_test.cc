#include "io/http/budget.h"

#include <gtest/gtest.h>

namespace forebay::io::http {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(BudgetTest, EndsAndIsEarnedAgain) {
  Budget budget({.most = 3, .per_success = 0.05});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(budget.take(i * 1'000'000 * kMs));
  EXPECT_FALSE(budget.take(9'000'000 * kMs));
  for (int i = 0; i < 21; ++i) budget.add_success();
  EXPECT_TRUE(budget.take(0));
  EXPECT_FALSE(budget.take(0));
  for (int i = 0; i < 1000; ++i) budget.add_success();
  int taken = 0;
  while (budget.take(0)) ++taken;
  EXPECT_EQ(taken, 3);
}

TEST(BudgetTest, TokensAreTakenAheadOfTheirTime) {
  Budget budget({.most = 2, .per_second = 10});
  EXPECT_EQ(budget.take_ahead(1), 0);
  EXPECT_EQ(budget.take_ahead(1), 0);
  EXPECT_EQ(budget.take_ahead(1), 100 * kMs);
  EXPECT_EQ(budget.take_ahead(1), 200 * kMs);
  EXPECT_EQ(budget.take_ahead(1 + 100 * kMs), 200 * kMs);
  EXPECT_EQ(budget.take_ahead(1 + 10'000 * kMs), 0);
}

TEST(PlacesTest, ARefusalHalvesThemAndAnswersBringThemBack) {
  RequestLimit places(64);
  EXPECT_FALSE(places.is_reduced());
  places.refused(1, 10);
  EXPECT_EQ(places.limit(), 32u);
  EXPECT_TRUE(places.is_reduced());
  // The other requests of the same moment bring the same news.
  places.refused(2, 11);
  EXPECT_EQ(places.limit(), 32u);
  for (int64_t round = 2; round < 20; ++round) places.refused(round * 10, round * 10 + 5);
  EXPECT_EQ(places.limit(), 2u);
  int answers = 0;
  while (places.is_reduced()) {
    places.answered();
    ++answers;
  }
  EXPECT_GT(answers, 1000);
  EXPECT_LT(answers, 3000);
  EXPECT_EQ(places.limit(), 64u);
}

TEST(PlacesTest, OneStaysOne) {
  RequestLimit places(1);
  places.refused(1, 2);
  EXPECT_EQ(places.limit(), 1u);
}

}  // namespace
}  // namespace forebay::io::http
