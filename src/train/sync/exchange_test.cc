// Exchanges with real threads: messages from next() of one are given to received() of another.
#include "train/sync/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/checksum.h"
#include "io/testing/manual_clock.h"
#include "train/sync/ako.h"
#include "train/sync/all_reduce.h"
#include "train/sync/floats.h"
#include "train/sync/local_steps.h"

namespace forebay::train {
namespace {

constexpr uint64_t kFloats = 5000;

struct Process {
  Process(uint32_t rank, uint32_t processes, std::unique_ptr<Strategy> strategy,
          double wait_s_max = 30)
      : exchange(std::move(strategy), io::monotonic_clock(),
                 {.rank = rank, .processes = processes, .wait_s_max = wait_s_max}, gradient,
                 weights) {}
  std::vector<float> gradient = std::vector<float>(kFloats);
  std::vector<float> weights = std::vector<float>(kFloats);
  Exchange exchange;
};

std::unique_ptr<Strategy> ako(uint32_t rank, uint32_t processes, uint64_t staleness = 0) {
  return std::make_unique<Ako>(
      Ako::Options{
          .rank = rank, .processes = processes, .of = Ako::Of::kGradients, .staleness = staleness},
      std::vector<float>(kFloats));
}

// Delivers the messages from `from` to `to`, until the last one.
void carry(uint32_t from_rank, Exchange& from, uint32_t to_rank, Exchange& to) {
  while (true) {
    const base::Bytes message = from.next(to_rank);
    if (message.empty()) return;
    ASSERT_LE(message.size(), to.message_bytes_max());
    const auto goes_on = to.received(from_rank, message);
    ASSERT_TRUE(goes_on.has_value()) << goes_on.error().message();
    if (!*goes_on) return;
  }
}

TEST(Exchange, ThreeProcessesWithTheirThreads) {
  constexpr uint32_t kProcesses = 3;
  std::vector<std::unique_ptr<Process>> processes;
  for (uint32_t rank = 0; rank < kProcesses; ++rank) {
    processes.push_back(std::make_unique<Process>(rank, kProcesses, ako(rank, kProcesses, 4)));
  }
  std::vector<std::jthread> threads;
  for (uint32_t from = 0; from < kProcesses; ++from) {
    for (uint32_t to = 0; to < kProcesses; ++to) {
      if (from == to) continue;
      threads.emplace_back([&processes, from, to] {
        carry(from, processes[from]->exchange, to, processes[to]->exchange);
      });
    }
  }
  std::vector<std::jthread> training;
  for (const auto& process : processes) {
    training.emplace_back([&process] {
      for (int step = 0; step < 300; ++step) {
        for (size_t i = 0; i < kFloats; ++i) {
          process->gradient[i] = (process->weights[i] - 1) / 20;
        }
        ASSERT_TRUE(process->exchange.before_update().ok());
        for (size_t i = 0; i < kFloats; ++i) process->weights[i] -= process->gradient[i];
        ASSERT_TRUE(process->exchange.after_update().ok());
      }
    });
  }
  training.clear();
  for (const auto& process : processes) process->exchange.close();
  threads.clear();
  for (uint32_t rank = 0; rank < kProcesses; ++rank) {
    for (const float weight : processes[rank]->weights) ASSERT_NEAR(weight, 1, 0.01);
    const ExchangeStats stats = processes[rank]->exchange.stats();
    EXPECT_EQ(stats.steps, 300u);
    EXPECT_EQ(stats.trouble, "");
    for (uint32_t peer = 0; peer < kProcesses; ++peer) {
      EXPECT_EQ(stats.links[peer].sent_bytes > 0, peer != rank);
      EXPECT_EQ(stats.links[peer].received_bytes > 0, peer != rank);
    }
  }
}

// The first message of a process whose gradient is all ones.
struct FirstMessage {
  FirstMessage() {
    std::fill(from.gradient.begin(), from.gradient.end(), 1);
    EXPECT_TRUE(from.exchange.before_update().ok());
    EXPECT_TRUE(from.exchange.after_update().ok());
    const base::Bytes message = from.exchange.next(1);
    EXPECT_GT(message.size(), kMessageHeaderBytes);
    header.assign(message.begin(), message.begin() + kMessageHeaderBytes);
    payload.assign(message.begin() + kMessageHeaderBytes, message.end());
  }
  // Delivers the message; returns by how much it changes the gradient of `to`.
  float deliver() {
    base::ByteVector message = header;
    message.insert(message.end(), payload.begin(), payload.end());
    message.push_back(7);  // bytes after a message are ignored
    EXPECT_TRUE(to.exchange.received(0, message).value_or(false));
    std::fill(to.gradient.begin(), to.gradient.end(), 0);
    EXPECT_TRUE(to.exchange.before_update().ok());
    float sum = 0;
    for (const float value : to.gradient) sum += value;
    return sum;
  }
  Process from{0, 2, ako(0, 2)};
  Process to{1, 2, ako(1, 2)};
  base::ByteVector header;
  base::ByteVector payload;
};

TEST(Exchange, ADamagedMessageIsRefusedAndNamed) {
  FirstMessage good;
  EXPECT_GT(good.deliver(), 0);
  FirstMessage bad;
  bad.payload[5] ^= 1;
  EXPECT_EQ(bad.deliver(), 0);
  const ExchangeStats stats = bad.to.exchange.stats();
  EXPECT_EQ(stats.links[0].refused, 1u);
  EXPECT_NE(stats.trouble.find("rank 0"), std::string::npos) << stats.trouble;
  EXPECT_NE(stats.trouble.find("checksum"), std::string::npos) << stats.trouble;
}

TEST(Exchange, NumbersThatAreNotFiniteAreRefusedAndNamed) {
  FirstMessage bad;
  std::vector<float> floats(bad.payload.size() / sizeof(float));
  floats[3] = std::numeric_limits<float>::infinity();
  bad.payload.clear();
  append(floats, &bad.payload);
  auto header = decode_message_header(bad.header);
  ASSERT_TRUE(header.has_value());
  header->payload_crc32c = base::crc32c(bad.payload);
  bad.header = encode_message_header(*header);
  EXPECT_EQ(bad.deliver(), 0);
  EXPECT_NE(bad.to.exchange.stats().trouble.find("not finite"), std::string::npos);
}

TEST(Exchange, GradientsThatAreElsewhereAreCheckedThere) {
  std::vector<float> weights(kFloats);
  Exchange exchange(std::make_unique<Ako>(Ako::Options{.processes = 2}, weights),
                    io::monotonic_clock(), {.rank = 0, .processes = 2}, {}, weights);
  std::vector<float> part = {1, 2, 3};
  for (int step = 0; step < 2; ++step) {
    EXPECT_TRUE(exchange.check_gradient(part).ok());
    EXPECT_TRUE(exchange.before_update().ok());
    for (float& weight : weights) weight += 1;
    EXPECT_TRUE(exchange.after_update().ok());
  }
  part[1] = std::numeric_limits<float>::quiet_NaN();
  const Status refused = exchange.check_gradient(part);
  EXPECT_EQ(refused.code(), base::Code::kInvalid);
  EXPECT_NE(refused.message().find("step 2"), std::string::npos) << refused.message();
  EXPECT_GT(exchange.next(1).size(), kMessageHeaderBytes);
}

TEST(Exchange, AHeaderThatLeavesTheModelIsRefused) {
  Process process(1, 2, ako(1, 2));
  const auto code = [&process](const MessageHeader& header) {
    base::ByteVector message = encode_message_header(header);
    message.resize(message.size() + kFloats * sizeof(float));
    const auto received = process.exchange.received(0, message);
    return received ? base::Code::kOk : received.error().code();
  };
  EXPECT_EQ(code({.begin = 0, .count = kFloats}), base::Code::kOk);
  EXPECT_EQ(code({.begin = 1, .count = kFloats}), base::Code::kCorrupt);
  EXPECT_EQ(code({.begin = UINT64_MAX, .count = 2}), base::Code::kCorrupt);
  EXPECT_EQ(code({.sender = 1, .begin = 0, .count = 1}), base::Code::kCorrupt);
  const base::ByteVector cut = encode_message_header({.begin = 0, .count = 1});
  EXPECT_EQ(process.exchange.received(0, cut).error().code(), base::Code::kCorrupt);
  EXPECT_EQ(process.exchange.received(0, base::Bytes(cut).first(9)).error().code(),
            base::Code::kCorrupt);
}

TEST(Exchange, AStepWaitsOnlySoLongForALinkThatTakesNothing) {
  Process process(0, 2, ako(0, 2, 3), 0.05);
  for (int step = 0; step < 10; ++step) {
    ASSERT_TRUE(process.exchange.before_update().ok());
    ASSERT_TRUE(process.exchange.after_update().ok());
  }
}

TEST(Exchange, AnAllReduceThatNobodyDoesEndsWithAnError) {
  Process process(0, 2, std::make_unique<AllReduce>(2, std::vector<uint64_t>{kFloats}), 0.05);
  EXPECT_EQ(process.exchange.before_update().code(), base::Code::kTimedOut);
  process.exchange.fail({base::Code::kUnavailable, "the group is gone"});
  EXPECT_EQ(process.exchange.before_update().message(), "the group is gone");
  EXPECT_TRUE(process.exchange.next_reduction().empty());
}

TEST(Exchange, WhatKeepsTheTrainingFromStepsCountsForNoRate) {
  io::ManualClock clock(0);
  const std::vector<float> none(kFloats);
  std::vector<float> weights = none;
  Exchange exchange(std::make_unique<LocalSteps>(LocalSteps::Options{.floats = kFloats}, none),
                    clock, {}, {}, weights);
  const auto train_for = [&](int steps, int64_t step_ns) {
    for (int step = 0; step < steps; ++step) {
      clock.advance(step_ns);
      ASSERT_TRUE(exchange.before_update().ok());
      ASSERT_TRUE(exchange.after_update().ok());
    }
  };
  train_for(1, 20'000'000'000);  // begins late
  EXPECT_EQ(exchange.stats().steps_per_s, 0);
  train_for(20, 100'000'000);
  EXPECT_NEAR(exchange.stats().steps_per_s, 10, 1e-6);
  exchange.restart_measuring();
  train_for(1, 30'000'000'000);
  train_for(20, 100'000'000);
  EXPECT_NEAR(exchange.stats().steps_per_s, 10, 1e-6);
}

TEST(Exchange, AWaitThatGoesOnCounts) {
  Process process(0, 2, std::make_unique<AllReduce>(2, std::vector<uint64_t>{kFloats}), 30);
  std::jthread training([&] { EXPECT_FALSE(process.exchange.before_update().ok()); });
  while (process.exchange.stats().waited_s == 0) std::this_thread::yield();
  const double waited_s = process.exchange.stats().waited_s;
  while (process.exchange.stats().waited_s == waited_s) std::this_thread::yield();
  process.exchange.fail({base::Code::kUnavailable, "the group is gone"});
}

// Once each message began a new second.
TEST(Exchange, MessagesDoNotKeepAWaitFromLooking) {
  std::vector<float> numbers(kFloats);
  std::atomic<bool> is_over = false;
  Exchange exchange(std::make_unique<AllReduce>(2, std::vector<uint64_t>{kFloats}),
                    io::monotonic_clock(),
                    {.rank = 0,
                     .processes = 2,
                     .wait_s_max = 10,
                     .while_waiting = [](double) { return Status(base::Code::kCancelled, "saw"); }},
                    numbers, numbers);
  std::jthread receiver([&] {
    const auto message = encode_message_header({.kind = MessageHeader::Kind::kTaken, .sender = 1});
    while (!is_over) EXPECT_TRUE(exchange.received(1, message));
  });
  EXPECT_EQ(exchange.before_update().message(), "saw");
  is_over = true;
}

// A peer that waits for the sum of a step gets it from a process that has ended.
TEST(Exchange, EmptyReductionsAreThoseOfStepsThatLearnNothing) {
  Process process(0, 2,
                  std::make_unique<AllReduce>(2, std::vector<uint64_t>{1000, kFloats - 1000, 0}));
  std::ranges::fill(process.gradient, 1);
  process.exchange.close();
  for (int sum = 0; sum < 5; ++sum) {
    const auto numbers = process.exchange.next_empty_reduction();
    EXPECT_EQ(std::vector<float>(numbers.begin(), numbers.end()), std::vector<float>(kFloats));
    process.exchange.reduced();
  }
  EXPECT_EQ(process.weights, std::vector<float>(kFloats));
  EXPECT_EQ(process.exchange.stats().reduced_bytes, 5 * kFloats * sizeof(float));
}

TEST(Exchange, AModelWithoutNumbersHasNoEmptyReduction) {
  Exchange exchange(std::make_unique<AllReduce>(2, std::vector<uint64_t>{}), io::monotonic_clock(),
                    {.rank = 0, .processes = 2}, {}, {});
  EXPECT_TRUE(exchange.next_empty_reduction().empty());
}

TEST(Exchange, ThePeersForWhichAStepMustWaitAreNamed) {
  Process process(1, 3, ako(1, 3, 1), 60);
  EXPECT_TRUE(process.exchange.waits_for().empty());
  std::jthread training([&] {
    for (int step = 0; step < 3; ++step) {  // whose slices nobody takes
      EXPECT_TRUE(process.exchange.before_update().ok());
      EXPECT_TRUE(process.exchange.after_update().ok());
    }
  });
  while (process.exchange.waits_for() != std::vector<uint32_t>{0, 2}) std::this_thread::yield();
  process.exchange.lost(0, "connection reset");
  EXPECT_EQ(process.exchange.waits_for(), std::vector<uint32_t>{2});
  process.exchange.lost(2, "connection reset");
}

TEST(Exchange, ThePeersThatHaveNotEndedAreNamed) {
  Process process(1, 3, ako(1, 3));
  process.exchange.close();
  EXPECT_EQ(process.exchange.waits_for(), (std::vector<uint32_t>{0, 2}));
  process.exchange.lost(0, "connection reset");
  EXPECT_EQ(process.exchange.waits_for(), std::vector<uint32_t>{2});
  const auto last = encode_message_header({.kind = MessageHeader::Kind::kEnd, .sender = 2});
  EXPECT_FALSE(process.exchange.received(2, last).value());
  EXPECT_TRUE(process.exchange.waits_for().empty());
}

TEST(Exchange, ThePeerThatIsGoneGetsNothingMore) {
  Process process(0, 2, ako(0, 2));
  std::jthread sender([&process] {
    while (!process.exchange.next(1).empty()) {
    }
  });
  process.exchange.lost(1, "connection reset");
  sender.join();
  EXPECT_EQ(process.exchange.stats().links[1].lost, "connection reset");
  EXPECT_TRUE(process.exchange.before_update().ok());
}

TEST(Exchange, SettlingAppliesWhatArrivedAfterTheLastStep) {
  std::vector<std::unique_ptr<Process>> processes;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    processes.push_back(
        std::make_unique<Process>(rank, 2,
                                  std::make_unique<Ako>(Ako::Options{.rank = rank, .processes = 2},
                                                        std::vector<float>(kFloats))));
    Process& process = *processes.back();
    ASSERT_TRUE(process.exchange.before_update().ok());
    process.weights.assign(kFloats, rank == 0 ? 8.0F : 16.0F);  // the optimiser's step
    ASSERT_TRUE(process.exchange.after_update().ok());
  }
  std::vector<std::jthread> threads;
  for (uint32_t from = 0; from < 2; ++from) {
    threads.emplace_back([&processes, from] {
      carry(from, processes[from]->exchange, 1 - from, processes[1 - from]->exchange);
    });
  }
  for (const auto& process : processes) process->exchange.close();
  threads.clear();
  for (const auto& process : processes) {
    process->exchange.settle();
    // Each gives half of its update to the other.
    EXPECT_EQ(process->weights, std::vector<float>(kFloats, 12.0F));
  }
}

TEST(Exchange, WhatIsReleasedKeepsItsFiguresAndRefusesSteps) {
  Process process(0, 1, ako(0, 1));
  ASSERT_TRUE(process.exchange.before_update().ok());
  ASSERT_TRUE(process.exchange.after_update().ok());
  process.exchange.close();
  process.exchange.settle();
  process.exchange.release();
  EXPECT_EQ(process.exchange.stats().steps, 1u);
  EXPECT_EQ(process.exchange.before_update().code(), base::Code::kInvalid);
  process.exchange.settle();  // as in a job that ends after an error
  EXPECT_TRUE(process.exchange.kept().empty());
  EXPECT_TRUE(process.exchange.averaged_weights().empty());
}

}  // namespace
}  // namespace forebay::train
