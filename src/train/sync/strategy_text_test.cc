#include "train/sync/strategy_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace forebay::train {
namespace {

using testing::HasSubstr;

const std::vector<float> kWeights(100, 1.0F);

base::Result<std::unique_ptr<Strategy>> made(const char* text) {
  return make_strategy(text, {.rank = 1, .processes = 2, .sizes = {60, 40}, .weights = kWeights});
}

TEST(StrategyText, EachStrategyIsMade) {
  for (const char* text : {
           R"({"allreduce": {}})",
           R"({"ako": {"of": "updates", "staleness": 0, "parts": 8, "encoding": null}})",
           R"({"ako": {"of": "gradients", "staleness": 3, "parts": 1, "encoding": "top"}})",
           R"({"ps": {"servers": [0, 1], "staleness": 1}})",
           R"({"pairs": {"seed": 7}})",
           R"({"local": {"steps": 100, "fragments": 2, "delay": 3, "outer_rate": 0.7,
               "outer_momentum": 0.9, "begins_apart": false, "encoding": "int8"}})",
       }) {
    const auto strategy = made(text);
    ASSERT_TRUE(strategy) << text << ": " << strategy.error().message();
    EXPECT_NE(*strategy, nullptr);
  }
}

TEST(StrategyText, WhatIsWrongIsNamed) {
  struct Case {
    const char* text;
    const char* part;
  };
  for (const Case& c : {
           Case{"ako", "must be an object"},
           Case{R"({"pairs": {"seed": 7}, "allreduce": {}})", "must be an object with one member"},
           Case{R"({"gossip": {}})", "gossip"},
           Case{R"({"pairs": {}})", "pairs.seed is missing"},
           Case{R"({"pairs": {"seed": -1}})", "pairs.seed must be a whole number"},
           Case{R"({"allreduce": {"rank": 0}})", "rank"},
           Case{R"({"ako": {"of": "weights", "staleness": 0, "parts": 8, "encoding": null}})",
                "ako.of must be the name of a known value"},
       }) {
    const auto strategy = made(c.text);
    ASSERT_FALSE(strategy) << c.text;
    EXPECT_EQ(strategy.error().code(), base::Code::kInvalid);
    EXPECT_THAT(strategy.error().message(), HasSubstr(c.part));
  }
}

TEST(StrategyText, MoreServersThanNumbersAreRefused) {
  const auto made_with = [](size_t numbers) {
    return make_strategy(R"({"ps": {"servers": [0, 1], "staleness": 1}})",
                         {.rank = 1,
                          .processes = 2,
                          .sizes = {numbers},
                          .weights = std::span(kWeights).first(numbers)});
  };
  EXPECT_TRUE(made_with(2));
  for (const size_t numbers : {0u, 1u}) {
    const auto strategy = made_with(numbers);
    ASSERT_FALSE(strategy);
    EXPECT_EQ(strategy.error().code(), base::Code::kInvalid);
    EXPECT_THAT(strategy.error().message(),
                HasSubstr("2 servers, but the model has only " + std::to_string(numbers)));
  }
}

}  // namespace
}  // namespace forebay::train
