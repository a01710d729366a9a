// Partial exchange between simulated processes and over simulated links, with random speeds.
#include "train/sync/ako.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include "train/testing/simulated_job.h"

namespace forebay::train {
namespace {

using testing::SimulatedJob;
using testing::strategies;

constexpr uint32_t kProcesses = 4;  // a power of two, so that all sums below are exact
constexpr uint64_t kFloats = 37;

// Returns gradients of small whole numbers in the first steps, and zeros afterwards, so that
// everything in flight arrives.
std::vector<float> numbers(uint32_t process, uint64_t step, uint64_t learning_steps) {
  std::vector<float> gradient(kFloats);
  if (step >= learning_steps) return gradient;
  base::Random random(step, base::Purpose::kTest, process);
  for (float& value : gradient) value = static_cast<float>(random.below(17)) - 8;
  return gradient;
}

// Returns the weights after all gradients have reached all processes.
std::vector<float> learned(uint64_t learning_steps) {
  std::vector<float> all(kFloats);
  for (uint32_t process = 0; process < kProcesses; ++process) {
    for (uint64_t step = 0; step < learning_steps; ++step) {
      const auto gradient = numbers(process, step, learning_steps);
      for (size_t i = 0; i < kFloats; ++i) all[i] -= gradient[i] / kProcesses;
    }
  }
  return all;
}

std::unique_ptr<Ako> make(uint32_t rank, Ako::Of of, uint64_t staleness) {
  return std::make_unique<Ako>(
      Ako::Options{.rank = rank, .processes = kProcesses, .of = of, .staleness = staleness},
      std::vector<float>(kFloats));
}

Ako::Of draw(sim::Simulator& sim) {
  return sim.random().below(2) == 0 ? Ako::Of::kGradients : Ako::Of::kUpdates;
}

TEST(Ako, EachGradientReachesEachPeerOnce) {
  sim::for_each_seed(100, [](sim::Simulator& sim) {
    const Ako::Of of = draw(sim);
    const uint64_t learning_steps = 1 + sim.random().below(40);
    const uint64_t staleness = sim.random().below(2) * (1 + sim.random().below(10));
    std::vector<int64_t> step_ns;
    std::vector<int64_t> float_ns;
    for (uint32_t i = 0; i < kProcesses; ++i) {
      step_ns.push_back(100 + static_cast<int64_t>(sim.random().below(2000)));
      float_ns.push_back(1 + static_cast<int64_t>(sim.random().below(200)));
    }
    SimulatedJob::Options options;
    options.steps = learning_steps + 3000;
    options.message_floats_max = 1 + sim.random().below(2 * kFloats);
    options.step_ns = [&](uint32_t process) { return step_ns[process]; };
    options.link_ns = [&](uint32_t from, uint32_t to, uint64_t floats) {
      return static_cast<int64_t>(floats) * float_ns[(from + to) % kProcesses];
    };
    options.gradient = [&](uint32_t process, uint64_t step, std::span<const float>) {
      return numbers(process, step, learning_steps);
    };
    const std::vector<float> all = learned(learning_steps);
    SimulatedJob job(sim,
                     strategies(kProcesses,
                                [&](uint32_t rank) {
                                  auto ako = make(rank, of, staleness);
                                  for (uint32_t peer = 0; peer < kProcesses; ++peer) {
                                    ako->measured(peer,
                                                  1 + static_cast<double>(sim.random().below(50)));
                                  }
                                  return ako;
                                }),
                     std::vector<float>(kFloats), options);
    ASSERT_TRUE(sim.run(100'000'000).ok());
    for (uint32_t rank = 0; rank < kProcesses; ++rank) {
      EXPECT_TRUE(std::ranges::equal(job.weights(rank), all)) << rank;
    }
  });
}

TEST(Ako, AGradientLeavesWithinAsManyStepsAsThereArePartitions) {
  sim::for_each_seed(20, [](sim::Simulator& sim) {
    const Ako::Of of = draw(sim);
    const double rate = 1 + static_cast<double>(sim.random().below(2 * kFloats));
    SimulatedJob::Options options;
    options.steps = 300;
    options.link_ns = [](uint32_t, uint32_t, uint64_t) { return 1; };
    options.gradient = [](uint32_t process, uint64_t step, std::span<const float>) {
      return numbers(process, step, 300);
    };
    Partitions expected(kFloats);
    expected.follow(rate);
    SimulatedJob job(sim,
                     strategies(kProcesses,
                                [&](uint32_t rank) {
                                  auto ako = make(rank, of, 0);
                                  for (uint32_t peer = 0; peer < kProcesses; ++peer) {
                                    ako->measured(peer, rate);
                                  }
                                  return ako;
                                }),
                     std::vector<float>(kFloats), options);
    ASSERT_TRUE(sim.run(100'000'000).ok());
    EXPECT_LE(job.steps_in_message_max(), expected.count());
    EXPECT_GT(job.steps_in_message_max(), 0u);
  });
}

TEST(Ako, WaitsForALinkNoLongerThanTheStalenessAllows) {
  sim::for_each_seed(20, [](sim::Simulator& sim) {
    const Ako::Of of = draw(sim);
    const uint64_t staleness = 2 + sim.random().below(20);
    SimulatedJob::Options options;
    options.steps = 200;
    options.step_ns = [](uint32_t) { return 1000; };
    options.link_ns = [](uint32_t, uint32_t, uint64_t floats) {
      return static_cast<int64_t>(floats) * 1000;  // one float in the time of a step
    };
    options.gradient = [](uint32_t process, uint64_t step, std::span<const float>) {
      return numbers(process, step, 200);
    };
    SimulatedJob job(
        sim, strategies(kProcesses, [&](uint32_t rank) { return make(rank, of, staleness); }),
        std::vector<float>(kFloats), options);
    ASSERT_TRUE(sim.run(100'000'000).ok());
    EXPECT_LE(job.steps_in_message_max(), staleness + 1);
    EXPECT_EQ(job.steps(0), 200u);
  });
}

TEST(Ako, APeerThatIsGoneCostsItsShareAlone) {
  sim::for_each_seed(20, [](sim::Simulator& sim) {
    const Ako::Of of = draw(sim);
    SimulatedJob::Options options;
    options.steps = 400;
    options.gradient = [](uint32_t, uint64_t, std::span<const float> weights) {
      std::vector<float> gradient(kFloats);
      for (size_t i = 0; i < kFloats; ++i) gradient[i] = (weights[i] - 1) / 50;
      return gradient;
    };
    SimulatedJob job(sim, strategies(kProcesses, [&](uint32_t rank) { return make(rank, of, 8); }),
                     std::vector<float>(kFloats), options);
    const auto victim = static_cast<uint32_t>(sim.random().below(kProcesses));
    sim.within(300'000'000, [&] { job.kill(victim); });
    ASSERT_TRUE(sim.run(100'000'000).ok());
    for (uint32_t rank = 0; rank < kProcesses; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(job.steps(rank), 400u);
      EXPECT_TRUE(job.status(rank).ok());
      for (const float weight : job.weights(rank)) EXPECT_NEAR(weight, 1, 0.05);
    }
  });
}

TEST(Ako, ThinLinksGetFewerBytesANumber) {
  constexpr uint64_t kMany = 100'000;
  Ako ako({.rank = 0, .processes = 2, .encoding = std::nullopt}, std::vector<float>(kMany));
  const auto encoding = [&ako](double steps) {
    ako.measured(1, kMany / steps);
    return ako.encoding(1);
  };
  EXPECT_EQ(encoding(20), Encoding::kInt8);
  EXPECT_EQ(ako.partitions(1), 6u);           // 20 steps of four bytes, 65 of which become 260
  EXPECT_EQ(encoding(260), Encoding::kInt8);  // near the bound it does not change
  EXPECT_EQ(encoding(1000), Encoding::kTop);
  EXPECT_EQ(ako.partitions(1), 36u);
  EXPECT_EQ(encoding(240), Encoding::kTop);
  EXPECT_EQ(encoding(100), Encoding::kInt8);
}

// A later message sends what an encoding left out.
TEST(Ako, NothingIsLostByFewerBytes) {
  sim::for_each_seed(20, [](sim::Simulator& sim) {
    const Ako::Of of = draw(sim);
    const Encoding encoding = sim.random().below(2) == 0 ? Encoding::kInt8 : Encoding::kTop;
    constexpr uint64_t kLearningSteps = 30;
    SimulatedJob::Options options;
    options.steps = kLearningSteps + 3000;
    options.message_floats_max = 1 + sim.random().below(2 * kFloats);
    options.gradient = [&](uint32_t process, uint64_t step, std::span<const float>) {
      return numbers(process, step, kLearningSteps);
    };
    const std::vector<float> all = learned(kLearningSteps);
    SimulatedJob job(
        sim,
        strategies(kProcesses,
                   [&](uint32_t rank) {
                     return std::make_unique<Ako>(
                         Ako::Options{
                             .rank = rank, .processes = kProcesses, .of = of, .encoding = encoding},
                         std::vector<float>(kFloats));
                   }),
        std::vector<float>(kFloats), options);
    ASSERT_TRUE(sim.run(100'000'000).ok());
    for (uint32_t rank = 0; rank < kProcesses; ++rank) {
      for (size_t i = 0; i < kFloats; ++i) {
        EXPECT_NEAR(job.weights(rank)[i], all[i], 1e-3) << rank << ' ' << i;
      }
    }
  });
}

// Of two processes `from` is rank `sender`. Delivers all its messages to `to`; returns how many
// numbers they had.
uint64_t hand_over(Ako& from, Ako& to, uint64_t floats_max, uint32_t sender = 0) {
  uint64_t count = 0;
  Outgoing out;
  while (from.next(1 - sender, floats_max, &out)) {
    out.header.sender = sender;
    std::vector<float> floats(out.header.count);
    decode(out.header.encoding, out.bytes, floats);
    EXPECT_TRUE(to.received(out.header, floats).ok());
    count += floats.size();
    out = {};
  }
  return count;
}

TEST(Ako, MessagesOfManyBlocks) {
  constexpr uint64_t kMany = 1000;
  for (const Encoding encoding : {Encoding::kFloat32, Encoding::kInt8, Encoding::kTop}) {
    base::Random random(static_cast<uint64_t>(encoding), base::Purpose::kTest);
    std::vector<float> sender(kMany);
    std::vector<float> receiver(kMany);
    std::vector<float> all(kMany);
    Ako from({.rank = 0, .processes = 2, .encoding = encoding}, sender);
    Ako to({.rank = 1, .processes = 2}, receiver);
    for (int step = 0; step < 300; ++step) {
      for (size_t i = 0; i < kMany && step < 20; ++i) {
        const auto moved = static_cast<float>(random.below(17)) - 8;
        sender[i] += moved;
        all[i] += moved;
      }
      from.after_update(sender);
      EXPECT_GT(hand_over(from, to, 1 + random.below(kMany)), 0u);
      to.after_update(receiver);
    }
    from.settle(sender);
    for (size_t i = 0; i < kMany; ++i) {
      const double off = encoding == Encoding::kFloat32 ? 0 : 1e-3;
      ASSERT_NEAR(receiver[i], all[i] / 2, off) << name_of(encoding) << ' ' << i;
      ASSERT_NEAR(sender[i], all[i] / 2, off) << name_of(encoding) << ' ' << i;
    }
  }
}

// Two processes that trained separately from the same weights arrive at the mean.
TEST(Ako, BeginsWithWhatEachHasLearnedAlone) {
  constexpr uint64_t kMany = 1000;
  const std::vector<float> shared(kMany, 2);
  std::array<std::vector<float>, 2> weights = {shared, shared};
  for (size_t i = 0; i < kMany; ++i) weights[0][i] += static_cast<float>(i % 32);
  std::vector<Ako> both;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    both.emplace_back(Ako::Options{.rank = rank, .processes = 2, .partitions_least = 8}, shared);
  }
  EXPECT_EQ(both[1].averaged(shared), shared);
  for (int step = 0; step < 10; ++step) {
    for (uint32_t rank = 0; rank < 2; ++rank) both[rank].after_update(weights[rank]);
    for (uint32_t rank = 0; rank < 2; ++rank) hand_over(both[rank], both[1 - rank], 100, rank);
    // Process 0, which has learned something, knows the mean from the beginning; process 1 only
    // after everything has arrived.
    const std::vector<float> mean = both[0].averaged(weights[0]);
    for (size_t i = 0; i < kMany; ++i) ASSERT_EQ(mean[i], 2 + static_cast<float>(i % 32) / 2);
  }
  EXPECT_EQ(both[0].averaged(weights[0]), both[1].averaged(weights[1]));
  for (uint32_t rank = 0; rank < 2; ++rank) {
    both[rank].settle(weights[rank]);
    for (size_t i = 0; i < kMany; ++i) {
      ASSERT_EQ(weights[rank][i], 2 + static_cast<float>(i % 32) / 2) << rank << ' ' << i;
    }
  }
}

TEST(Ako, WhatWasGivenForStepsThatAPeerDidNotMakeComesBack) {
  const std::vector<float> first(100);
  for (const int made : {0, 5, 20}) {  // the peer's steps, of 20
    std::vector<float> weights = first;
    std::vector<float> others = first;
    Ako fast({.rank = 0, .processes = 2}, first);
    Ako slow({.rank = 1, .processes = 2}, first);
    for (int step = 0; step < 20; ++step) {
      for (float& weight : weights) weight += 1;
      fast.after_update(weights);
      hand_over(fast, slow, 100, 0);
      if (step >= made) continue;
      slow.after_update(others);  // which learns nothing
      hand_over(slow, fast, 100, 1);
    }
    ASSERT_TRUE(fast.lost(1).ok());
    fast.settle(weights);
    // All of its own 20 updates count for the steps that it made alone, and half of them for
    // others.
    for (const float weight : weights) ASSERT_FLOAT_EQ(weight, 20 - static_cast<float>(made) / 2);
  }
}

TEST(Ako, WhatTwoStepsMakeDueWaitsForALinkAtMost) {
  const std::vector<float> first(100);
  for (const uint64_t staleness : {0u, 50u}) {
    std::vector<float> weights = first;
    Ako from({.rank = 0, .processes = 2, .staleness = staleness, .partitions_least = 10}, first);
    Ako to({.rank = 1, .processes = 2}, first);
    for (int step = 0; step < 10; ++step) from.after_update(weights);
    EXPECT_EQ(hand_over(from, to, 7), staleness == 0 ? 20u : 100u);
  }
}

TEST(Ako, ManyTinyMessagesTakeNoMemory) {
  Ako ako({.rank = 0, .processes = 2}, std::vector<float>(3));
  const std::vector<float> one = {1};
  const auto bytes_in_use = [] {
    const auto info = ::mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const size_t before = bytes_in_use();
  constexpr uint64_t kMessages = 1 << 20;
  for (uint64_t i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(ako.received({.kind = MessageHeader::Kind::kSlice,
                              .sender = 1,
                              .step = 1,
                              .steps = 1,
                              .begin = i % 3,
                              .count = 1},
                             one)
                    .ok());
  }
  EXPECT_LT(bytes_in_use(), before + (1 << 20));
  std::vector<float> weights(3);
  ako.settle(weights);
  EXPECT_EQ(weights[0] + weights[1] + weights[2], static_cast<float>(kMessages));
}

TEST(Ako, AGradientThatIsNotFiniteIsRefused) {
  Ako ako({.rank = 0, .processes = 2}, std::vector<float>(3));
  std::vector<float> gradient = {1, std::numeric_limits<float>::quiet_NaN(), 2};
  EXPECT_EQ(ako.before_update(gradient).code(), base::Code::kInvalid);
  Outgoing out;
  EXPECT_FALSE(ako.next(1, 100, &out));
}

}  // namespace
}  // namespace forebay::train
