#include "train/learners/several_learners.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>

#include "train/testing/bench.h"

namespace forebay::train {
namespace {

using testing::HasSubstr;

const ModelOptions kTiny = {.name = "resnet9", .width = 2, .classes = 3, .seed = 9};

std::vector<at::Tensor> copies(const std::vector<Named>& tensors) {
  std::vector<at::Tensor> out;
  for (const Named& named : tensors) out.push_back(named.tensor.detach().clone());
  return out;
}

at::Tensor find(const Learner& learner, const std::string& name) {
  for (const Named& named : learner.state()) {
    if (named.name == name) return named.tensor;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

// Makes `count` steps; the feed's batches go round.
void train_steps(Learner& learner, FakeFeed& feed, uint64_t count, double rate) {
  for (uint64_t i = 0; i < count; ++i) {
    if (feed.state().position / FakeFeed::Options{}.batch == feed.steps()) {
      ASSERT_TRUE(feed.start({feed.state().epoch + 1, 0, {}}).ok());
    }
    const auto result = learner.gradients(learner.take(*feed.next()));
    ASSERT_TRUE(result) << result.error().message();
    learner.apply(rate);
  }
}

// Two single learners that are averaged by the equations of sma.h, in double precision.
TEST(SeveralLearners, EqualSingleLearnersThatAreAveragedByHand) {
  constexpr double kAlpha = 0.5;
  constexpr double kMomentum = 0.9;
  constexpr double kRate = 0.05;
  FakeFeed feed({});
  const auto central = *make_model(kTiny);
  const auto several = *SeveralLearners::make(*central, kTiny, {.averaging = {.learners = 2}});

  std::array<std::unique_ptr<Model>, 2> models = {*make_model(kTiny), *make_model(kTiny)};
  const c10::NoGradGuard no_grad;
  models[0]->forward(wrap_images(*feed.next(), Precision::kFp32), true);
  for (size_t i = 0; i < models[0]->buffers().size(); ++i) {
    at::Tensor(models[1]->buffers()[i].tensor).copy_(models[0]->buffers()[i].tensor);
  }
  ASSERT_TRUE(feed.start({0, 0, {}}).ok());
  std::vector<SingleLearner> singles;
  for (const auto& model : models) singles.emplace_back(*model, SingleLearner::Options{});
  std::array<at::Tensor, 2> weights = {singles[0].flatten().weights, singles[1].flatten().weights};
  at::Tensor z = weights[0].to(at::kDouble);
  at::Tensor previous = z;
  while (const auto batch = *feed.next()) {
    const Samples samples = several->take(batch);
    {
      const at::AutoGradMode grad(true);
      const auto result = several->gradients(samples);
      ASSERT_TRUE(result) << result.error().message();
      double loss = 0;
      for (int64_t j = 0; j < 2; ++j) {
        Samples half = samples;
        half.images = samples.images.slice(0, 4 * j, 4 * j + 4);
        half.labels = samples.labels.slice(0, 4 * j, 4 * j + 4);
        half.labelled = 4;
        loss += singles[static_cast<size_t>(j)].gradients(half)->loss / 2;
      }
      EXPECT_NEAR(result->loss, loss, 1e-5);
      EXPECT_EQ(result->samples, 8U);
    }
    at::Tensor next = z + kMomentum * (z - previous);
    for (size_t j = 0; j < 2; ++j) {
      const at::Tensor correction = kAlpha * (weights[j].to(at::kDouble) - z);
      singles[j].apply(kRate);
      weights[j].sub_(correction);
      next += correction;
    }
    previous = z;
    z = next;
    several->apply(kRate);
  }
  int64_t begin = 0;
  for (const auto* list : {&several->model().decayed(), &several->model().undecayed()}) {
    for (const Named& named : *list) {
      const at::Tensor expected =
          z.to(at::kFloat).as_strided(named.tensor.sizes(), named.tensor.strides(), begin);
      EXPECT_TRUE(at::allclose(named.tensor, expected, 1e-4, 1e-5)) << named.name;
      begin += named.tensor.numel();
    }
  }
  EXPECT_EQ(begin, z.numel());
  for (const std::string norm : {"grow1.norm.running_mean", "grow3.norm.running_var"}) {
    const at::Tensor mean =
        (find(*several, "learner1." + norm) + find(*several, "learner2." + norm)) / 2;
    EXPECT_TRUE(at::allclose(find(*several, norm), mean)) << norm;
  }
}

TEST(SeveralLearners, HaveTheSameWhiteningFilters) {
  FakeFeed feed({});
  const auto central = *make_model(kTiny);
  const auto several =
      *SeveralLearners::make(*central, kTiny, {.averaging = {.learners = 3}, .threads = 2});
  train_steps(*several, feed, 2, 0.1);
  const at::Tensor filters = find(*several, "whiten.weight");
  EXPECT_TRUE(filters.any().item<bool>());
  for (const std::string learner : {"learner1.", "learner2.", "learner3."}) {
    EXPECT_TRUE(at::equal(find(*several, learner + "whiten.weight"), filters));
  }
}

TEST(SeveralLearners, StaySameUnderTheMeanOfTheirGradients) {
  FakeFeed feed({});
  const auto central = *make_model(kTiny);
  const auto several =
      *SeveralLearners::make(*central, kTiny, {.averaging = {.kind = "sgd", .learners = 2}});
  train_steps(*several, feed, 5, 0.1);
  for (const Named& named : several->model().decayed()) {
    EXPECT_TRUE(at::equal(named.tensor, find(*several, "learner1." + named.name)));
    EXPECT_TRUE(at::equal(named.tensor, find(*several, "learner2." + named.name)));
  }
}

// Also more learners than samples, of which some have nothing to learn from in a step, and more
// than there are threads.
TEST(SeveralLearners, MayHaveNoSamplesInAStep) {
  for (const std::string kind : {"sma", "sgd", "local"}) {
    // Smaller images leave the last batch norm one number a channel, which has no variance.
    FakeFeed feed({.size = 32, .masked = 6});
    const auto central = *make_model(kTiny);
    const auto several = *SeveralLearners::make(
        *central, kTiny, {.averaging = {.kind = kind, .learners = 9}, .threads = 2});
    for (int i = 0; i < 4; ++i) {
      const auto result = several->gradients(several->take(*feed.next()));
      ASSERT_TRUE(result) << result.error().message();
      EXPECT_EQ(result->samples, i == 3 ? 2U : 8U);
      several->apply(0.01);
    }
    for (const at::Tensor& tensor : copies(several->state())) {
      EXPECT_TRUE(tensor.isfinite().all().item<bool>());
    }
  }
}

TEST(SeveralLearners, ResumedRunEndsWithTheSameBits) {
  for (const AveragingOptions& averaging :
       {AveragingOptions{.learners = 2}, AveragingOptions{.learners = 3, .steps = 4},
        AveragingOptions{.kind = "sgd", .learners = 2},
        AveragingOptions{.kind = "local", .learners = 2, .steps = 3}}) {
    SCOPED_TRACE(averaging.kind);
    const auto expected = whole_run(averaging);
    for (const uint64_t steps : {1U, 6U}) {
      io::MemoryFileSystem fs;
      interrupted_run(fs, steps, false, averaging);
      Bench bench(fs, averaging);
      bench.options.resume = true;
      const auto summary = bench.run();
      ASSERT_TRUE(summary) << summary.error().message();
      expect_same(bench.learner->state(), expected);
    }
  }
}

TEST(SeveralLearners, LossThatIsNoNumberNamesTheLearnerAndChangesNoWeights) {
  io::MemoryFileSystem fs;
  Bench bench(fs, {.learners = 2});
  bench.feed.bad_step = 1;  // only the first sample is bad
  const auto summary = bench.run();
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().code(), base::Code::kInvalid);
  EXPECT_THAT(summary.error().message(), HasSubstr("learner 1 of 2: the loss is "));
  EXPECT_THAT(summary.error().message(), HasSubstr("nan at epoch 0, step 1"));
  Bench other(fs, {.learners = 2});
  train_steps(*other.learner, other.feed, 1, other.learner->rate(0));
  for (const auto* list : {&bench.model->decayed(), &bench.model->undecayed()}) {
    for (const Named& named : *list) {
      for (const std::string prefix : {"", "learner1.", "learner2."}) {
        const std::string name = prefix + named.name;
        EXPECT_TRUE(at::equal(find(*bench.learner, name), find(*other.learner, name))) << name;
      }
    }
  }
}

TEST(SeveralLearners, ExceptionInAThreadReachesTheCaller) {
  FakeFeed feed({});
  const auto central = *make_model(kTiny);
  const auto several = *SeveralLearners::make(*central, kTiny, {.averaging = {.learners = 2}});
  Samples samples = several->take(*feed.next());
  ASSERT_TRUE(several->gradients(samples));
  several->apply(0.1);
  const Samples good = samples;
  samples.images = at::zeros({8, 4, 8, 8});  // a channel too many
  EXPECT_THROW(static_cast<void>(several->gradients(samples)), c10::Error);
  EXPECT_FALSE(several->has_gradients());
  EXPECT_TRUE(several->gradients(good));
}

TEST(SeveralLearners, LeaveTheNumberOfThreadsToOthers) {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  const auto central = *make_model(kTiny);
  const auto several =
      *SeveralLearners::make(*central, kTiny, {.averaging = {.learners = 2}, .threads = 3});
  EXPECT_EQ(at::get_num_threads(), 3);
  at::set_num_threads(before);
}

TEST(SeveralLearners, UnstableRatesAreRefused) {
  const auto central = *make_model(kTiny);
  const auto several =
      SeveralLearners::make(*central, kTiny, {.averaging = {.learners = 2, .rate = 1}});
  ASSERT_FALSE(several);
  EXPECT_EQ(several.error().code(), base::Code::kInvalid);
}

}  // namespace
}  // namespace forebay::train
