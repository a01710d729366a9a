// Every strategy finds the minimum of a function of which each process knows only a part, over
// links and with processors of random speeds.
#include <gtest/gtest.h>

#include "train/sync/ako.h"
#include "train/sync/all_reduce.h"
#include "train/sync/local_steps.h"
#include "train/sync/pairs.h"
#include "train/sync/parameter_servers.h"
#include "train/testing/simulated_job.h"

namespace forebay::train {
namespace {

using testing::SimulatedJob;
using testing::strategies;

constexpr uint32_t kProcesses = 4;
constexpr uint64_t kFloats = 8;
constexpr float kRate = 0.02F;

// Process r has gradients only for the numbers i ≡ r mod 4; they pull strongly towards kGoal.
constexpr float kGoal = 3;
std::vector<float> pull(uint32_t process, std::span<const float> weights) {
  std::vector<float> gradient(weights.size());
  for (size_t i = process; i < weights.size(); i += kProcesses) {
    gradient[i] = kRate * kProcesses * (weights[i] - kGoal);
  }
  return gradient;
}

using Make =
    std::function<std::unique_ptr<Strategy>(uint32_t rank, std::span<const float> weights)>;

std::unique_ptr<Strategy> parameter_servers(uint32_t rank, std::vector<uint32_t> servers,
                                            uint64_t staleness, std::span<const float> weights) {
  auto made =
      std::make_unique<ParameterServers>(ParameterServers::Options{.rank = rank,
                                                                   .processes = kProcesses,
                                                                   .servers = std::move(servers),
                                                                   .staleness = staleness},
                                         weights);
  made->set_rules({{.range = {.begin = 0, .count = kFloats}, .rate = 1}});
  return made;
}

const std::pair<const char*, Make> kStrategies[] = {
    {"ako",
     [](uint32_t rank, std::span<const float> weights) {
       return std::make_unique<Ako>(Ako::Options{.rank = rank, .processes = kProcesses}, weights);
     }},
    {"ako of gradients",
     [](uint32_t rank, std::span<const float> weights) {
       return std::make_unique<Ako>(
           Ako::Options{.rank = rank, .processes = kProcesses, .of = Ako::Of::kGradients}, weights);
     }},
    {"ako of int8",
     [](uint32_t rank, std::span<const float> weights) {
       return std::make_unique<Ako>(
           Ako::Options{.rank = rank, .processes = kProcesses, .encoding = Encoding::kInt8},
           weights);
     }},
    {"allreduce",
     [](uint32_t, std::span<const float>) {
       return std::make_unique<AllReduce>(kProcesses, std::vector<uint64_t>{3, kFloats - 3});
     }},
    {"local",
     [](uint32_t, std::span<const float> weights) {
       return std::make_unique<LocalSteps>(
           LocalSteps::Options{.processes = kProcesses, .floats = kFloats, .steps = 10}, weights);
     }},
    {"streaming",
     [](uint32_t, std::span<const float> weights) {
       return std::make_unique<LocalSteps>(
           LocalSteps::Options{
               .processes = kProcesses, .floats = kFloats, .steps = 12, .fragments = 3, .delay = 2},
           weights);
     }},
    {"pairs",
     [](uint32_t rank, std::span<const float> weights) {
       return std::make_unique<Pairs>(rank, kProcesses, 5, weights);
     }},
    {"one server",
     [](uint32_t rank, std::span<const float> weights) {
       return parameter_servers(rank, {2}, 1, weights);
     }},
    {"all servers",
     [](uint32_t rank, std::span<const float> weights) {
       return parameter_servers(rank, {0, 1, 2, 3}, 0, weights);
     }},
};

void expect_convergence(const char* name, const Make& make, uint64_t damaged_one_of) {
  const ::testing::ScopedTrace trace(__FILE__, __LINE__, name);
  sim::for_each_seed(5, [&](sim::Simulator& sim) {
    SimulatedJob::Options options;
    options.steps = 1500;
    options.damaged_one_of = damaged_one_of;
    options.message_floats_max = 1 + sim.random().below(kFloats);
    const auto slow = static_cast<int64_t>(1 + sim.random().below(400));
    options.step_ns = [](uint32_t process) { return 900 + 100 * int64_t{process}; };
    options.link_ns = [slow](uint32_t, uint32_t to, uint64_t floats) {
      return static_cast<int64_t>(floats) * slow * (1 + to % 2);
    };
    options.gradient = [](uint32_t process, uint64_t, std::span<const float> weights) {
      return pull(process, weights);
    };
    const std::vector<float> weights(kFloats);
    SimulatedJob job(sim,
                     strategies(kProcesses, [&](uint32_t rank) { return make(rank, weights); }),
                     weights, options);
    ASSERT_TRUE(sim.run(10'000'000).ok());
    for (uint32_t rank = 0; rank < kProcesses; ++rank) {
      EXPECT_EQ(job.steps(rank), 1500u);
      for (const float weight : job.weights(rank)) EXPECT_NEAR(weight, kGoal, 0.3) << rank;
    }
  });
}

TEST(Convergence, EveryStrategyFindsWhatAllKnowTogether) {
  for (const auto& [name, make] : kStrategies) expect_convergence(name, make, 0);
}

TEST(Convergence, DamagedMessagesHoldNobodyUp) {
  for (const auto& [name, make] : kStrategies) {
    const bool waits_for_answers = std::string_view(name).find("server") != std::string_view::npos;
    if (waits_for_answers || name == std::string_view("pairs")) expect_convergence(name, make, 7);
  }
}

// The processes move their weights by random amounts in the first steps, and not at all afterwards.
TEST(Pairs, KeepTheMeanOfAllWeights) {
  sim::for_each_seed(50, [](sim::Simulator& sim) {
    constexpr uint64_t kLearningSteps = 20;
    const auto moves = [](uint32_t process, uint64_t step) {
      std::vector<float> gradient(kFloats);
      if (step >= kLearningSteps) return gradient;
      base::Random random(step, base::Purpose::kTest, process);
      for (float& value : gradient) value = static_cast<float>(random.uniform()) - 0.3F;
      return gradient;
    };
    SimulatedJob::Options options;
    options.steps = 600;
    options.message_floats_max = 1 + sim.random().below(kFloats);
    options.step_ns = [](uint32_t process) { return 50 + 10 * int64_t{process}; };
    options.gradient = [&](uint32_t process, uint64_t step, std::span<const float>) {
      return moves(process, step);
    };
    const std::vector<float> weights(kFloats);
    SimulatedJob job(sim,
                     strategies(kProcesses,
                                [&](uint32_t rank) {
                                  return std::make_unique<Pairs>(rank, kProcesses, 1, weights);
                                }),
                     weights, options);
    ASSERT_TRUE(sim.run(10'000'000).ok());
    for (size_t i = 0; i < kFloats; ++i) {
      double mean = 0;
      for (uint32_t process = 0; process < kProcesses; ++process) {
        for (uint64_t step = 0; step < kLearningSteps; ++step) {
          mean -= moves(process, step)[i] / double{kProcesses};
        }
      }
      for (uint32_t rank = 0; rank < kProcesses; ++rank) {
        EXPECT_NEAR(job.weights(rank)[i], mean, 1e-3) << rank;
      }
    }
  });
}

TEST(ParameterServers, ApplyMomentumAndDecayLikePyTorch) {
  const std::vector<float> weights = {1, -2};
  ParameterServers alone({.rank = 0, .processes = 1, .servers = {0}, .staleness = 0}, weights);
  alone.set_rules({{.range = {.begin = 0, .count = 1},
                    .rate = 0.1,
                    .momentum = 0.9,
                    .weight_decay = 0.5,
                    .nesterov = true},
                   {.range = {.begin = 1, .count = 1}, .rate = 0.1, .momentum = 0.5}});
  std::vector<float> out = weights;
  for (int step = 0; step < 2; ++step) {
    std::vector<float> gradient = {2, 4};
    ASSERT_TRUE(alone.before_update(gradient).ok());
    alone.after_update(out);
  }
  // torch.optim.SGD on the same numbers.
  EXPECT_NEAR(out[0], -0.1073750, 1e-6);
  EXPECT_NEAR(out[1], -3.0, 1e-6);
}

TEST(Convergence, AGradientThatIsNotFiniteIsRefused) {
  for (const auto& [name, make] : kStrategies) {
    if (name == std::string_view("allreduce")) continue;  // spreads it, like PyTorch's
    std::vector<float> gradient(kFloats);
    gradient[3] = std::numeric_limits<float>::infinity();
    const auto strategy = make(0, std::vector<float>(kFloats));
    EXPECT_EQ(strategy->before_update(gradient).code(), base::Code::kInvalid) << name;
  }
}

TEST(ParameterServers, TheJobEndsWhenAServerIsGone) {
  const std::vector<float> weights(4);
  ParameterServers worker({.rank = 0, .processes = 3, .servers = {1}, .staleness = 0}, weights);
  EXPECT_TRUE(worker.lost(2).ok());
  EXPECT_EQ(worker.lost(1).code(), base::Code::kUnavailable);
}

}  // namespace
}  // namespace forebay::train
