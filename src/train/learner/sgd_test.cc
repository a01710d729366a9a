#include "train/learner/sgd.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "train/testing/find.h"

namespace forebay::train {
namespace {

TEST(Schedule, WarmsUpThenFallsAsACosine) {
  const Schedule schedule{.peak = 1, .warmup_steps = 4, .total_steps = 12};
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.25);
  EXPECT_DOUBLE_EQ(schedule.at(3), 1);
  EXPECT_DOUBLE_EQ(schedule.at(4), 1);
  EXPECT_DOUBLE_EQ(schedule.at(8), 0.5);
  EXPECT_NEAR(schedule.at(11), 0.03806, 1e-5);
  EXPECT_DOUBLE_EQ(schedule.at(12), 0);
}

TEST(Sgd, FollowsTheRuleAndSparesBatchNormsFromDecay) {
  const auto model = *make_model({"resnet9", 1, 2, 0});
  Sgd sgd(*model, {.momentum = 0.5, .weight_decay = 0.1});
  const at::Tensor decayed = find(*model, "linear.weight");
  const at::Tensor spared = find(*model, "grow1.norm.weight");
  const at::Tensor before = decayed.detach().clone();
  for (const at::Tensor& weight : sgd.weights()) weight.mutable_grad() = at::ones_like(weight);
  sgd.step(0.1);
  EXPECT_TRUE(at::allclose(decayed, before - 0.1 * (1 + 0.1 * before)));
  EXPECT_TRUE(at::allclose(spared, at::full({2}, 0.9)));
  for (const at::Tensor& weight : sgd.weights()) weight.mutable_grad() = at::ones_like(weight);
  sgd.step(0.1);
  EXPECT_TRUE(at::allclose(spared, at::full({2}, 0.9 - 0.15)));
}

// Two steps of torch.optim.SGD(lr=0.1, momentum=0.5, nesterov=True) with gradients of 1: the first
// moves the weight by 0.1 * (1 + 0.5), the second by 0.1 * (1 + 0.5 * 1.5).
TEST(Sgd, LooksAheadWithNesterov) {
  const auto model = *make_model({"resnet9", 1, 2, 0});
  Sgd sgd(*model, {.momentum = 0.5, .nesterov = true, .weight_decay = 0});
  const at::Tensor weight = find(*model, "grow1.norm.weight");
  for (const double expected : {0.85, 0.675}) {
    for (const at::Tensor& each : sgd.weights()) each.mutable_grad() = at::ones_like(each);
    sgd.step(0.1);
    EXPECT_NEAR(weight[0].item<double>(), expected, 1e-6);
  }
}

}  // namespace
}  // namespace forebay::train
