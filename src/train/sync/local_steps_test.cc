#include "train/sync/local_steps.h"

#include <gtest/gtest.h>

namespace forebay::train {
namespace {

// A sum that ends after the last step is still applied when the exchange ends.
TEST(LocalSteps, WhatWasSummedIsNotLostAtTheEnd) {
  std::vector<float> weights = {1, 1};
  LocalSteps local(
      {.processes = 2, .floats = 2, .steps = 4, .delay = 3, .outer_rate = 1, .outer_momentum = 0},
      weights);
  std::vector<float> gradient(2);
  for (int step = 0; step < 4; ++step) {
    ASSERT_TRUE(local.before_update(gradient).ok());
    weights[0] += 1;
    local.after_update(weights);
  }
  const std::span<float> moved = local.next_reduction();
  ASSERT_EQ(moved.size(), 2U);
  EXPECT_EQ(moved[0], -2);  // the half of what this process has moved
  local.settle(weights);
  EXPECT_EQ(weights[0], 5);  // it has not been summed yet
  moved[1] = -3;             // the other one has moved its second number by 6
  local.reduced();
  local.settle(weights);
  EXPECT_EQ(weights, (std::vector<float>{3, 4}));
  local.settle(weights);
  EXPECT_EQ(weights, (std::vector<float>{3, 4}));
}

}  // namespace
}  // namespace forebay::train
