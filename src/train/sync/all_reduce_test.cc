#include "train/sync/all_reduce.h"

#include <gtest/gtest.h>

#include <numeric>

#include "train/testing/simulated_job.h"

namespace forebay::train {
namespace {

using testing::SimulatedJob;
using testing::strategies;

TEST(AllReduce, AllProcessesApplyTheMean) {
  sim::for_each_seed(20, [](sim::Simulator& sim) {
    constexpr uint32_t kProcesses = 4;
    SimulatedJob::Options options;
    options.steps = 10;
    options.step_ns = [&](uint32_t) { return 1 + static_cast<int64_t>(sim.random().below(5000)); };
    options.gradient = [](uint32_t process, uint64_t step, std::span<const float>) {
      return std::vector<float>{static_cast<float>(process), static_cast<float>(step)};
    };
    SimulatedJob job(sim,
                     strategies(kProcesses,
                                [&](uint32_t) {
                                  return std::make_unique<AllReduce>(kProcesses,
                                                                     std::vector<uint64_t>{1, 1});
                                }),
                     {0, 0}, options);
    ASSERT_TRUE(sim.run(1'000'000).ok());
    for (uint32_t rank = 0; rank < kProcesses; ++rank) {
      EXPECT_EQ(job.weights(rank)[0], -10 * 1.5F);
      EXPECT_EQ(job.weights(rank)[1], -45.0F);
    }
  });
}

// Returns the ranges that are due, as positions in `gradient`.
std::vector<Range> due(AllReduce& reduce, std::span<float> gradient) {
  std::vector<Range> ranges;
  while (true) {
    const auto sum = reduce.next_reduction();
    if (sum.empty()) return ranges;
    ranges.push_back(
        {.begin = static_cast<uint64_t>(sum.data() - gradient.data()), .count = sum.size()});
  }
}

TEST(AllReduce, ABucketStartsWhenItsGradientsAreThere) {
  constexpr uint64_t kTensor = 5u << 20;  // two of them are more than a bucket of 25 MiB
  AllReduce reduce(2, {kTensor, kTensor, kTensor, kTensor});
  std::vector<float> gradient(4 * kTensor, 2);
  for (int step = 0; step < 2; ++step) {
    reduce.gradient_ready(gradient, {.begin = 2 * kTensor, .count = kTensor});
    EXPECT_TRUE(due(reduce, gradient).empty()) << "the last tensor's bucket goes first";
    reduce.gradient_ready(gradient, {.begin = 3 * kTensor, .count = kTensor});
    EXPECT_EQ(due(reduce, gradient).front(), (Range{.begin = 3 * kTensor, .count = kTensor}));
    EXPECT_FALSE(reduce.must_wait());
    reduce.gradient_done(gradient);
    EXPECT_TRUE(reduce.must_wait());
    EXPECT_FALSE(due(reduce, gradient).empty());
    for (int sums = 0; reduce.must_wait(); ++sums) {
      ASSERT_LT(sums, 4);
      reduce.reduced();
    }
    EXPECT_EQ(gradient, std::vector<float>(4 * kTensor, 1)) << "halved once";
    ASSERT_TRUE(reduce.before_update(gradient).ok());
    std::fill(gradient.begin(), gradient.end(), 2);
  }
}

// Their bucket would never be summed, and the step would never end.
TEST(AllReduce, TensorsWithoutNumbersAreLeftOut) {
  constexpr uint64_t kTensor = 1u << 20;  // fills a bucket
  AllReduce reduce(2, {0, kTensor, 0});
  std::vector<float> gradient(kTensor, 2);
  reduce.gradient_done(gradient);
  EXPECT_EQ(due(reduce, gradient), (std::vector<Range>{{.begin = 0, .count = kTensor}}));
  reduce.reduced();
  EXPECT_FALSE(reduce.must_wait());
}

}  // namespace
}  // namespace forebay::train
