#include "train/model/model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "train/testing/find.h"

namespace forebay::train {
namespace {

using base::Code;

TEST(Model, ResNet18HasTorchvisionsNamesAndShapes) {
  const auto model = *make_model({"resnet18", 16, 1000, 0});
  EXPECT_EQ(model->state().size(), 122U);
  EXPECT_EQ(find(*model, "conv1.weight").sizes(), at::IntArrayRef({64, 3, 7, 7}));
  EXPECT_EQ(find(*model, "layer2.0.downsample.0.weight").sizes(), at::IntArrayRef({128, 64, 1, 1}));
  EXPECT_EQ(find(*model, "layer4.1.bn2.num_batches_tracked").dim(), 0);
  EXPECT_EQ(find(*model, "fc.weight").sizes(), at::IntArrayRef({1000, 512}));
  int64_t learned = 0;
  for (const auto* list : {&model->decayed(), &model->undecayed()}) {
    for (const Named& named : *list) learned += named.tensor.numel();
  }
  EXPECT_EQ(learned, 11'689'512);  // the number that torchvision documents
}

TEST(Model, ForwardGivesFloatLogitsAtManySizes) {
  for (const std::string name : {"resnet9", "resnet18"}) {
    const auto model = *make_model({name, 4, 7, 1});
    for (const int64_t size : {8, 32, 33}) {
      for (const auto type : {at::kFloat, at::kBFloat16}) {
        const at::Tensor x = at::rand({2, 3, size, size}).to(type);
        const at::Tensor logits = model->forward(x, false);
        EXPECT_EQ(logits.sizes(), at::IntArrayRef({2, 7}));
        EXPECT_EQ(logits.scalar_type(), at::kFloat);
      }
    }
  }
}

TEST(Model, SameSeedSameWeights) {
  const auto a = (*make_model({"resnet9", 4, 3, 5}))->state();
  const auto b = (*make_model({"resnet9", 4, 3, 5}))->state();
  const auto c = (*make_model({"resnet9", 4, 3, 6}))->state();
  EXPECT_TRUE(at::equal(a[0].tensor, b[0].tensor));
  const auto linear = [](const Named& named) { return named.name == "linear.weight"; };
  EXPECT_FALSE(
      at::equal(std::ranges::find_if(a, linear)->tensor, std::ranges::find_if(c, linear)->tensor));
}

TEST(Model, UnknownNamesAreRefused) {
  EXPECT_EQ(make_model({"vgg", 4, 3, 0}).error().code(), Code::kInvalid);
  EXPECT_EQ(make_model({"resnet9", 0, 3, 0}).error().code(), Code::kInvalid);
}

}  // namespace
}  // namespace forebay::train
