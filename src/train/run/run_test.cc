#include "train/run/run.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/testing/bench.h"

namespace forebay::train {
namespace {

using base::Code;
using testing::HasSubstr;

TEST(Run, ResumedRunEndsWithTheSameBits) {
  const auto expected = whole_run();
  for (const bool takes_ahead : {false, true}) {
    for (const uint64_t steps : {1U, 4U, 6U}) {  // step 4 is the last step of an epoch
      io::MemoryFileSystem fs;
      interrupted_run(fs, steps, takes_ahead);
      Bench bench(fs);
      bench.options.resume = true;
      bench.options.takes_ahead = takes_ahead;
      const auto summary = bench.run();
      ASSERT_TRUE(summary) << summary.error().message();
      expect_same(bench.learner->state(), expected);
    }
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
