#include "train/learner/single_learner.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "train/model/device.h"
#include "train/model/weights.h"
#include "train/testing/fake_feed.h"

namespace forebay::train {
namespace {

TEST(Learner, MayTakeTheMeanWithTheMirrorImage) {
  const auto model = *make_model({"resnet9", 2, 3, 9});
  FakeFeed feed({.steps = 1});
  const auto batch = *feed.next();
  const at::Tensor images = wrap_images(batch, Precision::kFp32);
  model->forward(images, true);  // finds the whitening filters, which are zeros before
  const at::Tensor logits =
      (model->forward(images, false) + model->forward(images.flip(3), false)) / 2;
  const at::Tensor labels = at::tensor(at::ArrayRef<int32_t>(batch->labels)).to(at::kLong);
  SingleLearner::Options options;
  options.evaluate_flipped = true;
  SingleLearner learner(*model, options);
  EXPECT_NEAR(learner.evaluate(feed, 0)->loss,
              at::cross_entropy_loss(logits, labels).item<double>(), 1e-6);
}

TEST(Learner, StepsInTwoCalls) {
  const auto model = *make_model({"resnet9", 2, 3, 9});
  FakeFeed feed({.steps = 1});
  const auto batch = *feed.next();
  SingleLearner learner(*model, {});
  std::vector<at::Tensor> before;
  for (const Named& named : model->decayed()) before.push_back(named.tensor.detach().clone());
  const auto result = learner.gradients(learner.take(batch));
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->samples, 8U);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(at::equal(model->decayed()[i].tensor, before[i])) << model->decayed()[i].name;
    EXPECT_TRUE(model->decayed()[i].tensor.grad().defined()) << model->decayed()[i].name;
  }
  learner.apply(0.1);
  EXPECT_FALSE(at::equal(model->decayed()[0].tensor, before[0]));
}

// A step's loss and gradient, and a later evaluation.
struct Learned {
  double loss = 0;
  at::Tensor gradient;  // the gradients of all weights, concatenated, on the processor
  double later_loss = 0;
  ByteVector state;
};

Learned learn_on(const std::string& device, const std::string& model_name) {
  Learned out;
  const auto model = *make_model({model_name, 2, 3, 9});
  model->to(*choose_device(device));
  FakeFeed feed({.steps = 6, .batch = 32, .size = 32});
  SingleLearner learner(*model, {});
  while (const auto batch = *feed.next()) {
    const auto result = learner.gradients(learner.take(batch));
    EXPECT_TRUE(result) << result.error().message();
    if (batch->step == 0) {
      out.loss = result->loss;
      std::vector<at::Tensor> parts;
      for (const auto* list : {&model->decayed(), &model->undecayed()}) {
        for (const Named& named : *list) parts.push_back(named.tensor.grad().cpu().flatten());
      }
      out.gradient = at::cat(parts);
    }
    learner.apply(0.01);
  }
  out.later_loss = learner.evaluate(feed, 0)->loss;
  out.state = *encode_tensors(learner.state(), {});
  return out;
}

// What a GPU has learned can also be used on the processor.
TEST(Learner, LearnsTheSameOnAGpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "there is no GPU, or PyTorch has no CUDA";
  // Without TF32, convolutions have the precision of float32, like on the processor.
  at::globalContext().setAllowTF32CuDNN(false);
  for (const std::string name : {"resnet9", "resnet18"}) {
    const Learned here = learn_on("cpu", name);
    const Learned there = learn_on("cuda", name);
    EXPECT_NEAR(there.loss, here.loss, 1e-4 * here.loss) << name;
    // Batch norms of few pixels are sensitive: images that differ by a millionth change the
    // gradient of a weight of resnet18 by up to 2 %.
    EXPECT_LE((there.gradient - here.gradient).norm().item<double>(),
              0.05 * here.gradient.norm().item<double>())
        << name;
    const auto model = *make_model({name, 2, 3, 9});
    SingleLearner learner(*model, {});
    ASSERT_TRUE(load_tensors(*decode_safetensors(there.state), learner.state()).ok());
    FakeFeed feed({.steps = 6, .batch = 32, .size = 32});
    EXPECT_NEAR(learner.evaluate(feed, 0)->loss, there.later_loss, 1e-3 * there.later_loss) << name;
  }
}

TEST(Learner, BatchWithoutLabelsHasNoGradients) {
  const auto model = *make_model({"resnet9", 2, 3, 9});
  FakeFeed feed({.steps = 1, .masked = 8});
  SingleLearner learner(*model, {});
  const auto result = learner.gradients(learner.take(*feed.next()));
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->samples, 0U);
  EXPECT_FALSE(model->decayed()[0].tensor.grad().defined());
}

TEST(Learner, FlatNumbersLearnTheSame) {
  std::vector<std::vector<at::Tensor>> learned;
  for (const bool is_flat : {false, true}) {
    const auto model = *make_model({"resnet9", 2, 3, 9});
    FakeFeed feed({.steps = 3});
    SingleLearner learner(*model, {});
    FlatNumbers numbers;
    if (is_flat) numbers = learner.flatten();
    while (const auto batch = *feed.next()) {
      ASSERT_TRUE(learner.gradients(learner.take(batch)));
      learner.apply(0.1);
    }
    std::vector<at::Tensor>& tensors = learned.emplace_back();
    for (const Named& named : learner.state()) tensors.push_back(named.tensor.detach().clone());
    if (!is_flat) continue;
    const auto& weight = model->decayed()[0].tensor;
    EXPECT_EQ(numbers.sizes[0], static_cast<uint64_t>(weight.numel()));
    EXPECT_EQ(numbers.weights.const_data_ptr<float>(), weight.const_data_ptr<float>());
    EXPECT_EQ(numbers.gradient.const_data_ptr<float>(), weight.grad().const_data_ptr<float>());
    EXPECT_EQ(numbers.gradient.numel(), numbers.weights.numel());
  }
  for (size_t i = 0; i < learned[0].size(); ++i) {
    EXPECT_TRUE(at::equal(learned[0][i], learned[1][i])) << i;
  }
}

TEST(Learner, FlatGradientIsZeroWithoutLabels) {
  const auto model = *make_model({"resnet9", 2, 3, 9});
  FakeFeed feed({.steps = 1, .masked = 8});
  SingleLearner learner(*model, {});
  const FlatNumbers numbers = learner.flatten();
  numbers.gradient.fill_(1);
  ASSERT_TRUE(learner.gradients(learner.take(*feed.next())));
  EXPECT_FALSE(numbers.gradient.any().item<bool>());
  EXPECT_TRUE(learner.has_gradients());
  learner.apply(0.1);
}

}  // namespace
}  // namespace forebay::train
