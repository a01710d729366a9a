#include "train/model/model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

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

TEST(Model, RangesOfBlocksGiveTheBitsOfAllOfThem) {
  for (const std::string name : {"resnet9", "resnet18"}) {
    for (const bool training : {false, true}) {
      const auto whole = *make_model({name, 4, 7, 1});
      const at::Tensor x = at::rand({3, 3, 33, 33});
      const at::Tensor expected = whole->forward(x, training);
      for (size_t cut = 1; cut < whole->blocks(); ++cut) {
        const auto model = *make_model({name, 4, 7, 1});
        const at::Tensor middle = model->forward(x, training, 0, cut);
        const at::Tensor got = model->forward(middle, training, cut, model->blocks());
        EXPECT_TRUE(at::equal(got, expected)) << name << ", cut before block " << cut;
        const auto state = model->state();
        for (size_t i = 0; i < state.size(); ++i) {
          EXPECT_TRUE(at::equal(state[i].tensor, whole->state()[i].tensor)) << state[i].name;
        }
      }
    }
  }
}

TEST(Model, EachTensorBelongsToOneBlock) {
  const auto model = *make_model({"resnet18", 16, 10, 0});
  std::set<std::string> names;
  for (size_t block = 0; block < model->blocks(); ++block) {
    for (const Named& named : model->state(block, block + 1)) {
      EXPECT_TRUE(names.insert(named.name).second) << named.name;
      const std::string own = model->work(32)[block].name;
      const bool is_numbered = own.starts_with("layer");
      EXPECT_EQ(named.name.starts_with("layer"), is_numbered) << named.name;
      if (is_numbered) {
        EXPECT_TRUE(named.name.starts_with(own + ".")) << named.name;
      }
    }
  }
  EXPECT_EQ(names.size(), model->state().size());
}

TEST(Model, WorkHasTheShapesThatBlocksGive) {
  for (const std::string name : {"resnet9", "resnet18"}) {
    for (const int64_t side : {8, 15, 16, 33, 224}) {
      const auto model = *make_model({name, 4, 7, 1});
      const auto work = model->work(side);
      ASSERT_EQ(work.size(), model->blocks());
      at::Tensor x = at::rand({1, 3, side, side});
      for (size_t block = 0; block < work.size(); ++block) {
        x = model->forward(x, false, block, block + 1);
        const Activation shape{x.size(1), x.dim() == 4 ? x.size(2) : 0};
        EXPECT_EQ(work[block].out, shape) << name << ", " << work[block].name << ", " << side;
        EXPECT_EQ(work[block].out.numbers(), x.numel());
      }
    }
  }
}

TEST(Model, ResNet18MultipliesAsOftenAsTorchvisionSays) {
  double multiplications = 0;
  int64_t weights = 0;
  for (const BlockWork& work : (*make_model({"resnet18", 16, 1000, 0}))->work(224)) {
    multiplications += work.multiplications;
    weights += work.weights;
  }
  EXPECT_NEAR(multiplications / 1e9, 1.814, 0.001);  // torchvision's _ops of ResNet18_Weights
  EXPECT_EQ(weights, 11'689'512);
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
