#include "train/sync/local_steps.h"

#include <gtest/gtest.h>

#include <array>

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
  EXPECT_EQ(moved[0], -2);  // half of what this process has moved
  local.settle(weights);
  EXPECT_EQ(weights[0], 5);  // unchanged, because there is no sum yet
  moved[1] = -3;             // the other process has moved its second number by 6
  local.reduced();
  local.settle(weights);
  EXPECT_EQ(weights, (std::vector<float>{3, 4}));
  local.settle(weights);
  EXPECT_EQ(weights, (std::vector<float>{3, 4}));
}

// If the initial weights differ, the first exchange of each fragment takes their mean, without the
// outer optimiser.
TEST(LocalSteps, BeginsWithTheMeanOfWeightsThatDiffer) {
  const std::array<std::vector<float>, 2> first = {{{1, 2, 3, 4}, {5, 8, 11, 14}}};
  std::array<std::vector<float>, 2> weights = first;
  std::vector<LocalSteps> both;
  for (const auto& own : weights) {
    both.emplace_back(
        LocalSteps::Options{
            .processes = 2, .floats = 4, .steps = 4, .fragments = 2, .begins_apart = true},
        own);
  }
  const auto exchange = [&] {
    for (size_t i = 0; i < 2; ++i) both[i].after_update(weights[i]);
    for (size_t i = 0; i < 2; ++i) both[i].after_update(weights[i]);
    const std::span<float> a = both[0].next_reduction();
    const std::span<float> b = both[1].next_reduction();
    for (size_t i = 0; i < a.size(); ++i) a[i] = b[i] = a[i] + b[i];
    for (LocalSteps& one : both) one.reduced();
  };
  exchange();
  // Until a fragment's first exchange, a checkpoint has this process's own weights for it, and
  // there are no shared weights.
  EXPECT_EQ(both[0].kept()[0].floats[2], 3);
  EXPECT_TRUE(both[0].shared_weights().empty());
  weights[1][0] += 10;  // learned in between, and kept
  exchange();
  EXPECT_EQ(weights[0], (std::vector<float>{3, 5, 3, 4}));
  EXPECT_EQ(weights[1], (std::vector<float>{13, 5, 11, 14}));
  exchange();
  EXPECT_EQ(weights[0], (std::vector<float>{3, 5, 7, 9}));
  EXPECT_EQ(weights[1], (std::vector<float>{13, 5, 7, 9}));
  // From the second exchange on, the outer optimiser applies the mean of the moves, which is 5.
  exchange();
  for (const auto& own : weights) {
    EXPECT_FLOAT_EQ(own[0], 3 + 0.7F * (5 + 0.9F * 5));
    EXPECT_EQ(own[1], 5);
  }
  weights[0][3] += 1;
  EXPECT_EQ(both[0].shared_weights()[3], 9);
  EXPECT_TRUE(std::ranges::equal(both[0].shared_weights(), both[1].shared_weights()));
}

TEST(LocalSteps, WhatRoundingLeavesOutIsPartOfTheNextExchange) {
  std::vector<float> weights = {0, 0};
  LocalSteps local({.processes = 2,
                    .floats = 2,
                    .steps = 1,
                    .outer_rate = 1,
                    .outer_momentum = 0,
                    .begins_apart = true,
                    .encoding = Encoding::kInt8},
                   weights);
  local.after_update(weights);
  ASSERT_EQ(local.next_reduction().size(), 2U);
  EXPECT_TRUE(local.left_out().empty());  // a mean of weights is not rounded
  local.reduced();
  local.after_update(weights);
  ASSERT_EQ(local.next_reduction().size(), 2U);
  ASSERT_EQ(local.left_out().size(), 2U);
  local.left_out()[1] = 0.25F;
  local.reduced();
  weights[0] += 1;
  local.after_update(weights);
  const std::span<float> moved = local.next_reduction();
  EXPECT_EQ(std::vector<float>(moved.begin(), moved.end()), (std::vector<float>{-0.5F, 0.25F}));
}

// Another outer optimiser changes each fragment of the shared weights by the mean of the moves, and
// keeps nothing here.
TEST(LocalSteps, AnotherOuterOptimiserChangesTheSharedWeights) {
  std::vector<float> weights = {1, 2, 3, 4};
  std::vector<uint64_t> begins;
  const auto outer = [&](std::span<float> shared, std::span<float> moved, uint64_t begin) {
    begins.push_back(begin);
    for (size_t i = 0; i < shared.size(); ++i) shared[i] -= 10 * moved[i];
  };
  LocalSteps local(
      {.processes = 2, .floats = 4, .steps = 4, .fragments = 2, .delay = 1, .outer = outer},
      weights);
  ASSERT_EQ(local.kept().size(), 1U);
  for (int step = 0; step < 6; ++step) {
    for (float& weight : weights) weight += 1;
    local.after_update(weights);
    const std::span<float> moved = local.next_reduction();
    if (moved.empty()) continue;
    for (float& one : moved) one *= 2;  // the other process has moved as far
    local.reduced();
  }
  EXPECT_EQ(begins, (std::vector<uint64_t>{0, 2}));
  // After two steps the first fragment has moved by 2, and after four the second by 4. What was
  // learned while they were summed is kept.
  EXPECT_EQ(local.kept()[0].floats[0], 1 + 10 * 2);
  EXPECT_EQ(local.kept()[0].floats[3], 4 + 10 * 4);
  EXPECT_EQ(weights, (std::vector<float>{25, 26, 45, 46}));
}

TEST(LocalSteps, MayHaveMoreFragmentsThanThereAreNumbers) {
  std::vector<float> weights = {1};
  LocalSteps local({.processes = 2, .floats = 1, .steps = 4, .fragments = 4}, weights);
  int sums = 0;
  for (int step = 0; step < 8; ++step) {
    ASSERT_FALSE(local.must_wait());
    local.after_update(weights);
    if (local.next_reduction().empty()) continue;
    local.reduced();
    ++sums;
  }
  EXPECT_EQ(sums, 2);
}

}  // namespace
}  // namespace forebay::train
