// Models, schedule and whole runs on a fake feed.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/memory.h"
#include "train/fake_feed.h"
#include "train/run.h"

namespace forebay::train {
namespace {

using base::Code;
using testing::HasSubstr;

at::Tensor find(const Model& model, const std::string& name) {
  for (const Named& named : model.state()) {
    if (named.name == name) return named.tensor;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

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
  EXPECT_EQ(learned, 11'689'512);  // as torchvision documents it
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

TEST(Schedule, WarmsUpThenFallsAsACosine) {
  const Schedule schedule{.peak = 1, .warmup_steps = 4, .total_steps = 12};
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.25);
  EXPECT_DOUBLE_EQ(schedule.at(3), 1);
  EXPECT_DOUBLE_EQ(schedule.at(4), 1);
  EXPECT_DOUBLE_EQ(schedule.at(8), 0.5);
  EXPECT_NEAR(schedule.at(11), 0.03806, 1e-5);
  EXPECT_DOUBLE_EQ(schedule.at(12), 0);
}

// Of patches from the inside, where no padding is.
TEST(Whitening, DecorrelatesPatchesAndScalesThemAlike) {
  const auto model = *make_model({"resnet9", 1, 2, 0});
  const at::Generator random = at::detail::createCPUGenerator(3);
  const at::Tensor noise = at::empty({64, 3, 16, 16}).normal_(0, 1, random);
  const at::Tensor images = at::avg_pool2d(noise, 3, 1, 1) + at::full({1, 3, 1, 1}, 0.5);
  model->forward(images, true);
  const at::Tensor weight = find(*model, "whiten.weight");
  const at::Tensor first = weight.slice(0, 0, 12);
  EXPECT_TRUE(at::equal(weight.slice(0, 12), -first));
  const at::Tensor out = at::conv2d(images, first).permute({0, 2, 3, 1}).reshape({-1, 12});
  const at::Tensor covariance = out.t().matmul(out) / out.size(0);
  EXPECT_TRUE(at::allclose(covariance, at::eye(12), 0, 0.05)) << covariance;
  // Once found, it stays.
  const at::Tensor before = weight.clone();
  model->forward(images * 2, true);
  EXPECT_TRUE(at::equal(weight, before));
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

// The second step of torch.optim.SGD(lr=0.1, momentum=0.5, nesterov=True) on a gradient of 1: the
// first goes 0.1 * (1 + 0.5), the second 0.1 * (1 + 0.5 * 1.5).
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

TEST(Learner, MayTakeTheMeanWithTheMirrorImage) {
  const auto model = *make_model({"resnet9", 2, 3, 9});
  FakeFeed feed({.steps = 1});
  const auto batch = *feed.next();
  const at::Tensor images = wrap_images(batch, Precision::kFp32);
  model->forward(images, true);  // without whitening all images are alike
  const at::Tensor logits =
      (model->forward(images, false) + model->forward(images.flip(3), false)) / 2;
  const at::Tensor labels = at::tensor(at::ArrayRef<int32_t>(batch->labels)).to(at::kLong);
  Learner::Options options;
  options.evaluate_flipped = true;
  Learner learner(*model, options);
  EXPECT_NEAR(learner.evaluate(feed, 0)->loss,
              at::cross_entropy_loss(logits, labels).item<double>(), 1e-6);
}

// A whole run in memory.
struct Bench {
  io::MemoryFileSystem& fs;
  FakeFeed feed{{}};
  std::unique_ptr<Model> model = *make_model({"resnet9", 2, 3, 9});
  Learner learner{*model,
                  {.precision = Precision::kFp32,
                   .sgd = {},
                   .schedule = {.peak = 0.1, .warmup_steps = 2, .total_steps = 12},
                   .label_smoothing = 0.1}};
  RunOptions options;
  std::atomic<bool> stop = false;

  explicit Bench(io::MemoryFileSystem& files) : fs(files) {
    options.epochs = 3;
    options.out = "out";
    options.checkpoint_steps = 3;
    options.fingerprint = R"({"lr":0.1})";
    options.stop = &stop;
  }
  Result<Summary> run() {
    Log log = *Log::open(fs, "");
    FakeFeed validation({.steps = 2, .batch = 8, .size = 8, .classes = 3, .masked = 3});
    return train(learner, *model, feed, &validation, fs, log, options);
  }
};

void expect_same(const std::vector<Named>& a, const std::vector<Named>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::equal(a[i].tensor, b[i].tensor)) << a[i].name;
  }
}

// The state after an uninterrupted run.
std::vector<Named> whole_run() {
  io::MemoryFileSystem fs;
  Bench bench(fs);
  const auto summary = bench.run();
  EXPECT_TRUE(summary) << summary.error().message();
  EXPECT_EQ(summary->steps, 12U);
  EXPECT_EQ(summary->validation->samples, 13U);  // the masked ones do not count
  return bench.learner.state();
}

// Ends after `steps` steps, as by Ctrl-C.
void interrupted_run(io::MemoryFileSystem& fs, uint64_t steps) {
  for (uint64_t done = 0; done < steps; ++done) {
    Bench part(fs);
    part.options.resume = done > 0;
    part.stop = true;
    ASSERT_EQ(part.run().error().code(), Code::kCancelled);
  }
}

TEST(Run, ResumedRunEndsWithTheSameBits) {
  const auto expected = whole_run();
  for (const uint64_t steps : {1U, 4U, 6U}) {  // 4: an epoch's last step
    io::MemoryFileSystem fs;
    interrupted_run(fs, steps);
    Bench bench(fs);
    bench.options.resume = true;
    const auto summary = bench.run();
    ASSERT_TRUE(summary) << summary.error().message();
    expect_same(bench.learner.state(), expected);
  }
}

TEST(Run, DamagedNewestCheckpointGivesWayToTheOneBefore) {
  const auto expected = whole_run();
  for (const bool torn : {false, true}) {
    io::MemoryFileSystem fs;
    interrupted_run(fs, 6);
    const auto paths = *list_checkpoints(fs, "out");
    ASSERT_EQ(paths.size(), 2U);
    base::ByteVector& newest = fs.content(paths[0]);
    if (torn) {
      newest.resize(newest.size() / 2);
    } else {
      newest[newest.size() - 5] ^= 1;
    }
    Bench probe(fs);
    const auto restored =
        restore_checkpoint(fs, "out", probe.options.fingerprint, probe.learner.state());
    ASSERT_TRUE(restored) << restored.error().message();
    EXPECT_EQ((*restored)->path, paths[1]);
    EXPECT_EQ((*restored)->damaged.size(), 1U);
    Bench bench(fs);
    bench.options.resume = true;
    ASSERT_TRUE(bench.run());
    expect_same(bench.learner.state(), expected);
  }
}

TEST(Run, OtherOptionsAreRefusedByName) {
  io::MemoryFileSystem fs;
  interrupted_run(fs, 1);
  Bench bench(fs);
  EXPECT_EQ(bench.run().error().code(), Code::kExists);
  bench.options.resume = true;
  bench.options.fingerprint = R"({"lr":0.2})";
  const auto summary = bench.run();
  ASSERT_FALSE(summary);
  EXPECT_THAT(summary.error().message(), HasSubstr("lr 0.1 (now 0.2)"));
}

TEST(Run, LossThatIsNoNumberStopsBeforeTheWeightsSuffer) {
  io::MemoryFileSystem fs;
  Bench bench(fs);
  bench.feed.bad_step = 1;
  const auto summary = bench.run();
  ASSERT_FALSE(summary);
  EXPECT_THAT(summary.error().message(), HasSubstr("lower --lr"));
  EXPECT_THAT(summary.error().message(), HasSubstr("epoch 0, step 1"));
  for (const Named& named : bench.model->decayed()) {
    EXPECT_TRUE(named.tensor.isfinite().all().item<bool>()) << named.name;
  }
}

TEST(Run, ValidatesWhenItIsDueAndAfterTheLastEpoch) {
  io::MemoryFileSystem fs;
  Bench bench(fs);
  bench.options.validation_epochs = 2;
  bench.options.target_accuracy = 0.0;
  EXPECT_EQ(bench.run()->epochs, 2U);
  Bench last(fs);
  last.options.out = "other";
  last.options.validation_epochs = 5;
  EXPECT_EQ(last.run()->validation->samples, 13U);
  last.options.validation_epochs = 0;
  EXPECT_EQ(last.run().error().code(), Code::kInvalid);
}

TEST(Run, EndsEarlyAtTheTargetAndWritesWeights) {
  io::MemoryFileSystem fs;
  Bench bench(fs);
  bench.options.target_accuracy = 0.0;
  const auto summary = bench.run();
  ASSERT_TRUE(summary) << summary.error().message();
  EXPECT_TRUE(summary->reached_target);
  EXPECT_EQ(summary->epochs, 1U);
  EXPECT_TRUE(fs.stat("out/model.safetensors"));
}

}  // namespace
}  // namespace forebay::train
