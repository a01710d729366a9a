// Runs a small training on a fake feed and a file system in memory, to its end or interrupted.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "io/testing/memory.h"
#include "train/learners/several_learners.h"
#include "train/run/run.h"
#include "train/testing/fake_feed.h"

namespace forebay::train {

// One training run in memory: three epochs of four steps.
struct Bench {
  io::MemoryFileSystem& fs;
  FakeFeed feed{{}};
  std::unique_ptr<Model> model;
  std::unique_ptr<Learner> learner;
  RunOptions options;
  std::atomic<bool> stop = false;

  explicit Bench(io::MemoryFileSystem& files, const AveragingOptions& averaging = {}) : fs(files) {
    const ModelOptions tiny = {.name = "resnet9", .width = 2, .classes = 3, .seed = 9};
    model = *make_model(tiny);
    const SingleLearner::Options one = {
        .precision = Precision::kFp32,
        .sgd = {},
        .schedule = {.peak = 0.1, .warmup_steps = 2, .total_steps = 12},
        .label_smoothing = 0.1};
    if (averaging.learners == 1) {
      learner = std::make_unique<SingleLearner>(*model, one);
    } else {
      learner = *SeveralLearners::make(*model, tiny, {.learner = one, .averaging = averaging});
    }
    options.epochs = 3;
    options.global_batch = FakeFeed::Options{}.batch;
    options.out = "out";
    options.checkpoint_steps = 3;
    options.fingerprint = R"({"lr":0.1})";
    options.stop = &stop;
  }
  Result<Summary> run() {
    Log log = *Log::open(fs, "");
    FakeFeed validation({.steps = 2, .batch = 8, .size = 8, .classes = 3, .masked = 3});
    return train(*learner, feed, &validation, fs, log, options);
  }
};

inline void expect_same(const std::vector<Named>& a, const std::vector<Named>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::equal(a[i].tensor, b[i].tensor)) << a[i].name;
  }
}

// Returns the state after an uninterrupted run.
inline std::vector<Named> whole_run(const AveragingOptions& averaging = {}) {
  io::MemoryFileSystem fs;
  Bench bench(fs, averaging);
  const auto summary = bench.run();
  EXPECT_TRUE(summary) << summary.error().message();
  EXPECT_EQ(summary->steps, 12U);
  EXPECT_EQ(summary->validation->samples, 13U);  // masked samples do not count
  return bench.learner->state();
}

// Makes `steps` runs, each of which resumes the one before and stops after one step, as after
// Ctrl-C.
inline void interrupted_run(io::MemoryFileSystem& fs, uint64_t steps, bool takes_ahead = false,
                            const AveragingOptions& averaging = {}) {
  for (uint64_t done = 0; done < steps; ++done) {
    Bench part(fs, averaging);
    part.options.resume = done > 0;
    part.options.takes_ahead = takes_ahead;
    part.stop = true;
    ASSERT_EQ(part.run().error().code(), base::Code::kCancelled);
  }
}

}  // namespace forebay::train
