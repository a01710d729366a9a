#include "train/learner.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "train/device.h"
#include "train/testing/fake_feed.h"
#include "train/weights.h"

namespace forebay::train {
namespace {

TEST(Learner, MayTakeTheMeanWithTheMirrorImage) {
  const auto model = *make_model({"resnet9", 2, 3, 9});
  FakeFeed feed({.steps = 1});
  const auto batch = *feed.next();
  const at::Tensor images = wrap_images(batch, Precision::kFp32);
  model->forward(images, true);  // finds the whitening; without it all images would look the same
  const at::Tensor logits =
      (model->forward(images, false) + model->forward(images.flip(3), false)) / 2;
  const at::Tensor labels = at::tensor(at::ArrayRef<int32_t>(batch->labels)).to(at::kLong);
  Learner::Options options;
  options.evaluate_flipped = true;
  Learner learner(*model, options);
  EXPECT_NEAR(learner.evaluate(feed, 0)->loss,
              at::cross_entropy_loss(logits, labels).item<double>(), 1e-6);
}

TEST(Learner, StepsInTwoCalls) {
  const auto model = *make_model({"resnet9", 2, 3, 9});
  FakeFeed feed({.steps = 1});
  const auto batch = *feed.next();
  Learner learner(*model, {});
  std::vector<at::Tensor> before;
  for (const Named& named : model->decayed()) before.push_back(named.tensor.detach().clone());
  const auto result = learner.gradients(batch);
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->samples, 8U);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(at::equal(model->decayed()[i].tensor, before[i])) << model->decayed()[i].name;
    EXPECT_TRUE(model->decayed()[i].tensor.grad().defined()) << model->decayed()[i].name;
  }
  learner.apply(0.1);
  EXPECT_FALSE(at::equal(model->decayed()[0].tensor, before[0]));
}

// What a GPU has learned can go on, or be used, on the processor.
TEST(Learner, LearnsTheSameOnAGpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "there is no GPU, or PyTorch has no CUDA";
  for (const std::string name : {"resnet9", "resnet18"}) {
    std::vector<std::vector<double>> losses;
    std::vector<ByteVector> states;
    for (const char* device : {"cpu", "cuda"}) {
      const auto model = *make_model({name, 2, 3, 9});
      model->to(*choose_device(device));
      FakeFeed feed({.steps = 6, .size = 32});
      Learner learner(*model, {});
      std::vector<double>& own = losses.emplace_back();
      while (const auto batch = *feed.next()) {
        const auto result = learner.gradients(batch);
        ASSERT_TRUE(result) << result.error().message();
        own.push_back(result->loss);
        learner.apply(0.01);
      }
      own.push_back(learner.evaluate(feed, 0)->loss);
      states.push_back(*encode_tensors(learner.state(), {}));
    }
    for (size_t i = 0; i < losses[0].size(); ++i) {
      EXPECT_NEAR(losses[0][i], losses[1][i], 0.02 * losses[0][i]) << name << ", step " << i;
    }
    const auto model = *make_model({name, 2, 3, 9});
    Learner learner(*model, {});
    ASSERT_TRUE(load_tensors(*decode_safetensors(states[1]), learner.state()).ok());
    FakeFeed feed({.steps = 6, .size = 32});
    EXPECT_NEAR(learner.evaluate(feed, 0)->loss, losses[1].back(), 1e-3 * losses[1].back()) << name;
  }
}

TEST(Learner, BatchWithoutLabelsHasNoGradients) {
  const auto model = *make_model({"resnet9", 2, 3, 9});
  FakeFeed feed({.steps = 1, .masked = 8});
  Learner learner(*model, {});
  const auto result = learner.gradients(*feed.next());
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->samples, 0U);
  EXPECT_FALSE(model->decayed()[0].tensor.grad().defined());
}

TEST(Learner, FlatNumbersLearnTheSame) {
  std::vector<std::vector<at::Tensor>> learned;
  for (const bool is_flat : {false, true}) {
    const auto model = *make_model({"resnet9", 2, 3, 9});
    FakeFeed feed({.steps = 3});
    Learner learner(*model, {});
    FlatNumbers numbers;
    if (is_flat) numbers = learner.flatten();
    while (const auto batch = *feed.next()) {
      ASSERT_TRUE(learner.gradients(batch));
      learner.apply(0.1);
    }
    std::vector<at::Tensor>& tensors = learned.emplace_back();
    for (const Named& named : learner.state()) tensors.push_back(named.tensor.detach().clone());
    if (!is_flat) continue;
    const auto& weight = model->decayed()[0].tensor;
    EXPECT_EQ(numbers.sizes[0], static_cast<uint64_t>(weight.numel()));
    EXPECT_EQ(numbers.weights.data(), weight.const_data_ptr<float>());
    EXPECT_EQ(numbers.gradient.data(), weight.grad().const_data_ptr<float>());
    EXPECT_EQ(numbers.gradient.size(), numbers.weights.size());
  }
  for (size_t i = 0; i < learned[0].size(); ++i) {
    EXPECT_TRUE(at::equal(learned[0][i], learned[1][i])) << i;
  }
}

TEST(Learner, FlatGradientIsZeroWithoutLabels) {
  const auto model = *make_model({"resnet9", 2, 3, 9});
  FakeFeed feed({.steps = 1, .masked = 8});
  Learner learner(*model, {});
  const FlatNumbers numbers = learner.flatten();
  std::fill(numbers.gradient.begin(), numbers.gradient.end(), 1.0F);
  ASSERT_TRUE(learner.gradients(*feed.next()));
  EXPECT_TRUE(std::all_of(numbers.gradient.begin(), numbers.gradient.end(),
                          [](float value) { return value == 0; }));
  learner.apply(0.1);
}

}  // namespace
}  // namespace forebay::train
