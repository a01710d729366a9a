// Exchanges with their real threads, over meshes whose processes are threads of one process.
#include "train/sync/links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "io/testing/comes_true.h"
#include "io/testing/meshes.h"
#include "train/sync/ako.h"
#include "train/sync/all_reduce.h"
#include "train/sync/local_steps.h"
#include "train/sync/pairs.h"
#include "train/sync/parameter_servers.h"

namespace forebay::train {
namespace {

using base::ByteVector;
using base::Code;
using io::Mesh;
using io::testing::comes_true;
using io::testing::connected_meshes;
using io::testing::in_each;
using io::testing::seconds_from_now;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Channel = Mesh::Channel;

constexpr uint64_t kFloats = 5000;
const std::vector<float> kZeros(kFloats);

using Make = std::function<std::unique_ptr<Strategy>(uint32_t rank, uint32_t processes)>;

std::unique_ptr<Strategy> ako(uint32_t rank, uint32_t processes) {
  return std::make_unique<Ako>(Ako::Options{.rank = rank, .processes = processes}, kZeros);
}

std::unique_ptr<Strategy> pairs(uint32_t rank, uint32_t processes) {
  return std::make_unique<Pairs>(rank, processes, 1, kZeros);
}

// Rank 0 has the whole model.
std::unique_ptr<Strategy> servers(uint32_t rank, uint32_t processes) {
  auto made = std::make_unique<ParameterServers>(
      ParameterServers::Options{
          .rank = rank, .processes = processes, .servers = {0}, .staleness = 0},
      kZeros);
  made->set_rules({{.range = {.begin = 0, .count = kFloats}, .rate = 1}});
  return made;
}

std::unique_ptr<Strategy> all_reduce(uint32_t /*rank*/, uint32_t processes) {
  return std::make_unique<AllReduce>(processes, std::vector<uint64_t>{0, 4000, 1000});
}

// Takes the mean every five steps.
std::unique_ptr<Strategy> local_steps(uint32_t /*rank*/, uint32_t processes) {
  return std::make_unique<LocalSteps>(LocalSteps::Options{.processes = processes,
                                                          .floats = kFloats,
                                                          .steps = 5,
                                                          .outer_rate = 1,
                                                          .outer_momentum = 0},
                                      kZeros);
}

struct Process {
  Process(Mesh& mesh, const Make& make, bool sums)
      : exchange(make(mesh.rank(), mesh.processes()), io::monotonic_clock(),
                 {.rank = mesh.rank(), .processes = mesh.processes(), .wait_s_max = 60}, gradient,
                 weights),
        links(Links::start(exchange, mesh, sums).value()) {}

  // Makes steps of SGD with this gradient.
  Status train(int steps, float value) {
    for (int step = 0; step < steps; ++step) {
      std::ranges::fill(gradient, value);
      RETURN_IF_ERROR(exchange.before_update());
      for (size_t i = 0; i < kFloats; ++i) weights[i] -= gradient[i];
      RETURN_IF_ERROR(exchange.after_update());
    }
    return {};
  }
  void close() {
    EXPECT_TRUE(links->close(seconds_from_now(60)));
    EXPECT_THAT(links->waits_for(), IsEmpty());
    exchange.settle();
  }

  std::vector<float> gradient = std::vector<float>(kFloats);
  std::vector<float> weights = std::vector<float>(kFloats);
  Exchange exchange;
  std::unique_ptr<Links> links;
};

struct Job {
  Job(uint32_t processes, const Make& make, bool sums) : meshes(connected_meshes(processes)) {
    for (const auto& mesh : meshes) own.push_back(std::make_unique<Process>(*mesh, make, sums));
  }
  Process& operator[](uint32_t rank) const { return *own[rank]; }
  // Each process makes as many steps, with the gradient rank + 1, and ends.
  void run(const std::vector<int>& steps) const {
    in_each(static_cast<uint32_t>(steps.size()), [&](uint32_t rank) {
      Process& process = *own[rank];
      const Status status = process.train(steps[rank], static_cast<float>(rank + 1));
      EXPECT_TRUE(status.ok()) << status.message();
      process.close();
      const ExchangeStats stats = process.exchange.stats();
      EXPECT_EQ(stats.trouble, "");
      for (const LinkStats& link : stats.links) EXPECT_EQ(link.lost, "");
    });
  }
  // The mean over all processes of their first weights, and of their last.
  std::pair<double, double> means() const {
    std::pair<double, double> out;
    for (const auto& process : own) {
      out.first += process->weights.front() / static_cast<double>(own.size());
      out.second += process->weights.back() / static_cast<double>(own.size());
    }
    return out;
  }
  io::testing::Meshes meshes;
  std::vector<std::unique_ptr<Process>> own;  // by rank
};

// Steps of two to four processes: as many for all, or different ones.
const std::vector<int> kSteps[] = {{20, 20}, {20, 20, 20}, {13, 2},
                                   {0, 7},   {12, 0, 31},  {3, 4, 5, 6}};

// How far the processes' own steps move the mean of all weights.
double mean_move(const std::vector<int>& steps) {
  double out = 0;
  for (size_t rank = 0; rank < steps.size(); ++rank) {
    out -= steps[rank] * static_cast<double>(rank + 1) / static_cast<double>(steps.size());
  }
  return out;
}

// The mean of all weights moves as all processes' own steps together, whatever messages cross.
void expect_the_mean_is_kept(const Make& make) {
  for (const auto& steps : kSteps) {
    const Job job(static_cast<uint32_t>(steps.size()), make, false);
    job.run(steps);
    const auto [first, last] = job.means();
    EXPECT_NEAR(first, mean_move(steps), 1e-3);
    EXPECT_NEAR(last, mean_move(steps), 1e-3);
  }
}

TEST(Links, AkoEndsWithTheMeanOfAllUpdates) { expect_the_mean_is_kept(ako); }

TEST(Links, PairsKeepTheMeanOfAllWeights) { expect_the_mean_is_kept(pairs); }

TEST(Links, AllReduceAppliesTheMeanAlsoWhenSomeHaveEnded) {
  for (const auto& steps : kSteps) {
    const auto processes = static_cast<uint32_t>(steps.size());
    const Job job(processes, all_reduce, true);
    job.run(steps);
    for (uint32_t rank = 0; rank < processes; ++rank) {
      double expected = 0;  // in the own steps, of all processes that still make some
      for (uint32_t other = 0; other < processes; ++other) {
        expected -= std::min(steps[rank], steps[other]) * (other + 1.0) / processes;
      }
      EXPECT_THAT(job[rank].weights, Each(FloatNear(static_cast<float>(expected), 1e-3F)));
    }
  }
}

// The processes once waited for each other, each with the numbers of its next sum to send.
TEST(Links, SumsThatNoSocketHoldsFollowEachOther) {
  const std::vector<uint64_t> sizes = {12u << 20, 1u << 20};  // the second one is summed first
  const auto meshes = connected_meshes(2);
  in_each(2, [&](uint32_t rank) {
    std::vector<float> gradient(sizes[0] + sizes[1], static_cast<float>(1 + rank));
    Exchange exchange(std::make_unique<AllReduce>(2, sizes), io::monotonic_clock(),
                      {.rank = rank, .processes = 2, .wait_s_max = 60}, gradient, gradient);
    const auto links = Links::start(exchange, *meshes[rank], true).value();
    EXPECT_TRUE(exchange.before_update().ok());
    EXPECT_TRUE(std::ranges::all_of(gradient, [](float value) { return value == 1.5F; }));
    EXPECT_TRUE(exchange.after_update().ok());
    EXPECT_TRUE(links->close(seconds_from_now(60)));
  });
}

// Rank 0 ends when the gradient of the last tensor is ready, and that of the first is not.
TEST(Links, AProcessMayEndInTheMiddleOfAStep) {
  constexpr uint64_t kTensor = 300'000;  // each is a bucket
  const io::testing::Meshes meshes = connected_meshes(2);
  in_each(2, [&](uint32_t rank) {
    std::vector<float> gradient(2 * kTensor, rank == 0 ? 4.0F : 2.0F);
    std::vector<float> weights(2 * kTensor);
    Exchange exchange(std::make_unique<AllReduce>(2, std::vector<uint64_t>{kTensor, kTensor}),
                      io::monotonic_clock(), {.rank = rank, .processes = 2}, gradient, weights);
    const auto links = Links::start(exchange, *meshes[rank], true).value();
    if (rank == 0) {
      exchange.gradient_ready({.begin = kTensor, .count = kTensor});
    } else {
      for (const float last : {3.0F, 1.0F}) {
        std::ranges::fill(gradient, 2);
        EXPECT_TRUE(exchange.before_update().ok());
        EXPECT_EQ(gradient.front(), 1);
        EXPECT_EQ(gradient.back(), last);
        EXPECT_TRUE(exchange.after_update().ok());
      }
    }
    EXPECT_TRUE(links->close(seconds_from_now(60)));
  });
}

TEST(Links, LocalStepsEndWithTheSameSharedWeights) {
  for (const auto& steps : {std::vector<int>{20, 20}, {25, 10, 0}, {0, 5}, {13, 2}, {3, 4, 5, 6}}) {
    const auto processes = static_cast<uint32_t>(steps.size());
    const Job job(processes, local_steps, true);
    job.run(steps);
    const std::vector<float> shared = job[0].exchange.shared_weights();
    ASSERT_EQ(shared.size(), kFloats);
    for (uint32_t rank = 1; rank < processes; ++rank) {
      EXPECT_EQ(job[rank].exchange.shared_weights(), shared) << rank;
    }
    const bool are_whole = std::ranges::all_of(steps, [](int own) { return own % 5 == 0; });
    if (!are_whole) continue;  // what was learned since the last exchange is not shared
    EXPECT_THAT(shared, Each(FloatNear(static_cast<float>(mean_move(steps)), 1e-3F)));
  }
}

TEST(Links, LocalStepsMayRoundWhatTheySum) {
  const auto rounded = [](uint32_t /*rank*/, uint32_t processes) {
    return std::make_unique<LocalSteps>(LocalSteps::Options{.processes = processes,
                                                            .floats = kFloats,
                                                            .steps = 5,
                                                            .outer_rate = 1,
                                                            .outer_momentum = 0,
                                                            .encoding = Encoding::kInt8},
                                        kZeros);
  };
  const Job job(3, rounded, true);
  job.run({20, 10, 20});
  for (const auto& process : job.own) {
    EXPECT_EQ(process->exchange.shared_weights(), job[0].exchange.shared_weights());
    EXPECT_EQ(process->exchange.stats().reduced_bytes, 4 * encoded_bytes(Encoding::kInt8, kFloats));
  }
  EXPECT_THAT(job[0].exchange.shared_weights(), Each(FloatNear(-100.0F / 3, 0.2F)));
}

TEST(Links, ServersApplyTheGradientsOfAll) {
  const Job job(3, servers, false);
  for (const uint32_t rank : {2u, 1u, 0u}) EXPECT_TRUE(job[rank].train(10, 3).ok());
  EXPECT_THAT(job[2].weights, Each(-10));
  EXPECT_THAT(job[1].weights, Each(-20));
  EXPECT_THAT(job[0].weights, Each(-30));
  in_each(3, [&](uint32_t rank) { job[rank].close(); });
}

TEST(Links, ServersAndWorkersEndAfterDifferentNumbersOfSteps) {
  for (const auto& steps : kSteps)
    Job(static_cast<uint32_t>(steps.size()), servers, false).run(steps);
}

TEST(Links, OneProcessEndsAlone) {
  Job(1, ako, false).run({3});
  Job(1, all_reduce, true).run({3});
}

TEST(Links, TheNextExchangeUsesTheSameMesh) {
  const io::testing::Meshes meshes = connected_meshes(3);
  in_each(3, [&](uint32_t rank) {
    for (int round = 0; round < 4; ++round) {
      for (const bool sums : {false, true}) {
        Process own(*meshes[rank], sums ? Make(all_reduce) : Make(ako), sums);
        const Status status = own.train(static_cast<int>(rank), 1);
        EXPECT_TRUE(status.ok()) << status.message();
        own.close();
      }
    }
  });
}

TEST(Links, ThoseThatHaveNotEndedAreNamed) {
  for (const bool sums : {false, true}) {
    const Job job(3, sums ? Make(all_reduce) : Make(ako), sums);
    EXPECT_FALSE(job[0].links->close(seconds_from_now(0.01)));
    EXPECT_TRUE(
        comes_true([&] { return job[0].links->waits_for() == std::vector<uint32_t>{1, 2}; }));
    EXPECT_FALSE(job[2].links->close(seconds_from_now(0.01)));
    EXPECT_TRUE(comes_true([&] { return job[0].links->waits_for() == std::vector<uint32_t>{1}; }));
    in_each(3, [&](uint32_t rank) { job[rank].close(); });
  }
}

TEST(Links, ASumWithoutAProcessThatIsGoneIsAnError) {
  for (const Make& make : {Make(all_reduce), Make(local_steps)}) {
    const Job job(3, make, true);
    std::vector<std::jthread> others;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      others.emplace_back([&, rank] {
        const Status status = job[rank].train(10, 1);
        EXPECT_EQ(status.code(), Code::kUnavailable) << status.message();
        EXPECT_THAT(status.message(), HasSubstr("a sum over all processes failed"));
        EXPECT_TRUE(job[rank].links->close(seconds_from_now(60)));
      });
    }
    job[2].links.reset();  // without close()
  }
}

TEST(Links, OtherProcessesGoOnWithoutOneThatIsGone) {
  for (const Make& make : {Make(ako), Make(pairs)}) {
    const Job job(3, make, false);
    EXPECT_TRUE(job[2].train(3, 1).ok());
    job[2].links.reset();  // without close()
    in_each(2, [&](uint32_t rank) {
      EXPECT_TRUE(comes_true([&] { return job[rank].exchange.stats().links[2].lost != ""; }));
      EXPECT_THAT(job[rank].exchange.stats().links[2].lost, HasSubstr("rank 2"));
      EXPECT_TRUE(job[rank].train(10, 1).ok());
      EXPECT_TRUE(job[rank].links->close(seconds_from_now(60)));
      EXPECT_EQ(job[rank].exchange.stats().links[1 - rank].lost, "");
    });
  }
}

TEST(Links, WorkersEndWhenTheServerIsGone) {
  const Job job(2, servers, false);
  job[0].links.reset();
  const Status status = job[1].train(10, 1);
  EXPECT_EQ(status.code(), Code::kUnavailable) << status.message();
  EXPECT_THAT(status.message(), HasSubstr("rank 0"));
}

TEST(Links, DestroyingThemEndsEveryWait) {
  for (const bool sums : {false, true}) {
    const Job job(2, sums ? Make(all_reduce) : Make(ako), sums);
    EXPECT_FALSE(job[0].links->close(seconds_from_now(0.01)));
    job[0].links.reset();
  }
}

// Rank 0 has links to rank 1, which knows the token but sends what it likes.
struct Hostile {
  explicit Hostile(bool sums = false)
      : meshes(connected_meshes(2)),
        honest(*meshes[0], sums ? Make(all_reduce) : Make(ako), sums) {}
  void say(Channel channel, const ByteVector& bytes) {
    EXPECT_TRUE(meshes[1]->transfer(channel, {{.peer = 0, .rest = bytes}}, {}).ok());
  }
  // Sends a message with an announced size; returns why the peer is lost.
  std::string lost_after(uint32_t size, size_t bytes) {
    ByteVector out(sizeof size + bytes, 7);
    base::store_le(out.data(), size);
    say(Channel::kMessages, out);
    const auto lost = [&] { return honest.exchange.stats().links[1].lost; };
    EXPECT_TRUE(comes_true([&] { return !lost().empty(); }));
    EXPECT_TRUE(honest.train(3, 1).ok());
    EXPECT_TRUE(honest.links->close(seconds_from_now(60)));
    return lost();
  }
  io::testing::Meshes meshes;
  Process honest;
};

TEST(Links, APeerWhoseMessageIsTooLargeIsLost) {
  Hostile job;
  const auto most = static_cast<uint32_t>(job.honest.exchange.message_bytes_max());
  EXPECT_THAT(job.lost_after(most + 1, 0),
              AllOf(HasSubstr("rank 1"), HasSubstr(std::to_string(most + 1))));
  EXPECT_THAT(Hostile().lost_after(UINT32_MAX, 10), HasSubstr("the largest has"));
}

TEST(Links, APeerWhoseBytesAreNoMessageIsLost) {
  EXPECT_THAT(Hostile().lost_after(100, 100), HasSubstr("checksum"));
  EXPECT_THAT(Hostile().lost_after(3, 3), HasSubstr("too few"));
  EXPECT_THAT(Hostile().lost_after(0, 0), HasSubstr("too few"));
}

TEST(Links, APeerThatSumsSomethingElseIsAnError) {
  Hostile job(true);
  job.say(Channel::kSums, ByteVector(24, 9));
  const Status status = job.honest.train(3, 1);
  EXPECT_EQ(status.code(), Code::kInvalid) << status.message();
  EXPECT_TRUE(job.honest.links->close(seconds_from_now(60)));
}

TEST(Links, ASumOfNoNumbersThatAPeerBeginsEnds) {
  const io::testing::Meshes meshes = connected_meshes(2);
  Exchange exchange(std::make_unique<LocalSteps>(LocalSteps::Options{}, std::span<float>()),
                    io::monotonic_clock(), {.rank = 0, .processes = 2}, {}, {});
  const auto links = Links::start(exchange, *meshes[0], true).value();
  Sums other(*meshes[1], Channel::kSums);
  EXPECT_FALSE(links->close(seconds_from_now(0.01)));
  std::jthread peer([&] { static_cast<void>(other.add({}, seconds_from_now(60))); });
  EXPECT_TRUE(links->close(seconds_from_now(60)));
  EXPECT_EQ(exchange.before_update().code(), Code::kInvalid);
  meshes[1]->stop();
}

}  // namespace
}  // namespace forebay::train
