#include "train/sync/pairs.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "train/testing/simulated_job.h"

namespace forebay::train {
namespace {

using base::Code;
using testing::SimulatedJob;
using testing::strategies;
using Kind = MessageHeader::Kind;

// Rank 0 begins the exchanges with rank 1.
struct Two {
  // Each makes a step, after which its weight is as before.
  void step() {
    first.after_update(weights[0]);
    second.after_update(weights[1]);
  }
  // The next message of a process; nothing if it has none.
  static std::optional<Outgoing> next(Pairs& from, uint32_t from_rank) {
    Outgoing out;
    if (!from.next(1 - from_rank, 1000, &out)) return {};
    out.header.sender = from_rank;
    return out;
  }
  static Status deliver(const Outgoing& message, Pairs& to) {
    std::vector<float> floats(message.header.count);
    decode(message.header.encoding, message.bytes, floats);
    return to.received(message.header, floats);
  }
  std::vector<float> weights[2] = {{0}, {1}};
  Pairs first{0, 2, 1, weights[0]};
  Pairs second{1, 2, 1, weights[1]};
};

// Once both began at the same time, and each moved the whole way to the other.
TEST(Pairs, TwoProcessesMeetInTheMiddleAndDoNotSwap) {
  Two job;
  job.step();
  const auto question = Two::next(job.first, 0);
  const auto crossing = Two::next(job.second, 1);  // at the same time
  ASSERT_TRUE(question);
  EXPECT_FALSE(crossing);
  ASSERT_TRUE(Two::deliver(*question, job.second).ok());
  const auto answer = Two::next(job.second, 1);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->header.kind, Kind::kAnswer);
  ASSERT_TRUE(Two::deliver(*answer, job.first).ok());
  job.step();
  EXPECT_EQ(job.weights[0], std::vector<float>{0.5F});
  EXPECT_EQ(job.weights[1], std::vector<float>{0.5F});
}

TEST(Pairs, StepsWhileMessagesAreOnTheirWayMoveTheMeanAlone) {
  Two job;
  job.step();
  const auto question = Two::next(job.first, 0);
  job.weights[0][0] += 2;  // the optimiser's steps
  job.weights[1][0] += 4;
  job.step();
  ASSERT_TRUE(Two::deliver(*question, job.second).ok());
  const auto answer = Two::next(job.second, 1);
  job.weights[0][0] += 1;
  job.step();
  ASSERT_TRUE(Two::deliver(*answer, job.first).ok());
  job.step();
  EXPECT_EQ(job.weights[0][0] + job.weights[1][0], 0 + 1 + 2 + 4 + 1);
  EXPECT_EQ(job.weights[1][0], (0 + 5) / 2.0F);
}

TEST(Pairs, ASliceOfAProcessThatDoesNotBeginIsRefused) {
  Two job;
  job.step();
  const MessageHeader header = {.kind = Kind::kSlice, .sender = 1, .count = 1};
  const float weight = 100;
  EXPECT_EQ(job.first.received(header, {&weight, 1}).code(), Code::kCorrupt);
  job.first.refused(header);  // as if it were damaged
  job.first.settle(job.weights[0]);
  EXPECT_EQ(job.weights[0], std::vector<float>{0});
  EXPECT_EQ(Two::next(job.first, 0)->header.kind, Kind::kSlice);  // no answer
}

TEST(Pairs, AnAnswerThatNobodyAskedForIsRefused) {
  Two job;
  job.step();
  const MessageHeader header = {.kind = Kind::kAnswer, .sender = 1, .count = 1};
  const float moved = 100;
  EXPECT_EQ(job.first.received(header, {&moved, 1}).code(), Code::kCorrupt);
}

TEST(Pairs, QuestionsThatTakeNoAnswersAreRefusedInTheEnd) {
  Two job;
  const MessageHeader header = {.kind = Kind::kSlice, .sender = 0, .count = 1};
  const float weight = 1;
  for (size_t i = 0; i < base::kUnansweredSlicesMax; ++i) {
    ASSERT_TRUE(job.second.received(header, {&weight, 1}).ok());
  }
  EXPECT_EQ(job.second.received(header, {&weight, 1}).code(), Code::kCorrupt);
}

TEST(Pairs, OneOfEachTwoProcessesBegins) {
  constexpr uint32_t kProcesses = 6;
  const std::vector<float> weights(1);
  const float weight = 1;
  for (uint32_t a = 0; a < kProcesses; ++a) {
    for (uint32_t b = 0; b < a; ++b) {
      const auto takes = [&](uint32_t rank, uint32_t sender) {
        Pairs pairs(rank, kProcesses, 1, weights);
        return pairs.received({.sender = sender, .count = 1}, {&weight, 1}).ok();
      };
      EXPECT_NE(takes(a, b), takes(b, a)) << a << " and " << b;
    }
  }
}

// In the first step each process moves to its rank, and then stays. Messages take many steps.
TEST(Pairs, TheSpreadOfWeightsShrinksOverSlowLinks) {
  for (uint32_t processes = 2; processes <= 5; ++processes) {
    sim::for_each_seed(5, [processes](sim::Simulator& sim) {
      SimulatedJob::Options options;
      options.steps = 2000;
      options.step_ns = [](uint32_t process) { return 100 + 7 * int64_t{process}; };
      options.link_ns = [&sim](uint32_t, uint32_t, uint64_t) {
        return static_cast<int64_t>(500 + sim.random().below(1000));
      };
      options.gradient = [](uint32_t process, uint64_t step, std::span<const float> weights) {
        return std::vector<float>(weights.size(), step == 0 ? -static_cast<float>(process) : 0.0F);
      };
      const std::vector<float> weights(3);
      SimulatedJob job(sim,
                       strategies(processes,
                                  [&](uint32_t rank) {
                                    return std::make_unique<Pairs>(rank, processes, 1, weights);
                                  }),
                       weights, options);
      ASSERT_TRUE(sim.run(10'000'000).ok());
      for (uint32_t rank = 0; rank < processes; ++rank) {
        for (const float weight : job.weights(rank)) {
          EXPECT_NEAR(weight, (processes - 1) / 2.0, 1e-3) << processes << " processes";
        }
      }
    });
  }
}

}  // namespace
}  // namespace forebay::train
