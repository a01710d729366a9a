// Several training processes that share prep servers without communicating.
#include "prep/policy/testing/policy_fleet.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

namespace forebay::prep {
namespace {

constexpr double kA = 1e6;  // a host's period in nanoseconds
constexpr double kFair = 0.05;

struct Case {
  size_t trainers = 16;
  size_t servers = 4;
  size_t each = 4;
  double g = 0.1;
};

// Trainers and prep servers whose periods change all the time, over a given number of steps of each
// trainer at each of its prep servers.
FleetModel model_of(base::Random& random, const Case& what, double steps = 250) {
  const double b = static_cast<double>(what.servers) / static_cast<double>(what.trainers);
  const double round_ns =
      kA * b * static_cast<double>(what.trainers * what.each) / static_cast<double>(what.servers);
  FleetModel model;
  model.from_ns = 25 * round_ns;
  model.until_ns = model.from_ns + steps * round_ns;
  const auto draw = [&](double period) {
    return draw_speed(random, period * kA, 0.2, model.until_ns);
  };
  for (size_t i = 0; i < what.servers; ++i) model.servers.push_back({.speed = draw(b)});
  for (const auto& servers : draw_servers(random, what.trainers, what.servers, what.each)) {
    model.trainers.push_back({.host = draw(1), .consumer = draw(what.g), .servers = servers});
    model.trainers.back().start_ns = 10 * kA * random.uniform();
  }
  return model;
}

// For each trainer from `first` on: its steps from prep servers, over the steps of an equal share.
std::vector<double> parts(const PolicyFleet& fleet, size_t first = 0) {
  std::vector<double> parts;
  for (size_t i = first; i < fleet.counts().trainers.size(); ++i) {
    const uint64_t got = fleet.counts().trainers[i].from_all_servers();
    parts.push_back(static_cast<double>(got) / fleet.servers_part(i));
  }
  return parts;
}

void expect_small_queues_and_few_messages(const PolicyFleet& fleet) {
  for (size_t i = 0; i < fleet.counts().trainers.size(); ++i) {
    const FleetCounts::Trainer& trainer = fleet.counts().trainers[i];
    EXPECT_LE(static_cast<double>(trainer.events), 3.1 * static_cast<double>(trainer.given));
    EXPECT_LE(static_cast<double>(trainer.messages),
              2.5 * static_cast<double>(trainer.from_all_servers()));
    EXPECT_LE(fleet.trainer(i).counts().orders_most, 8u);
  }
}

TEST(PolicyFleet, EqualTrainersGetEqualPartsAndNearlyWhatIsPossible) {
  const bool all = std::getenv("FOREBAY_TEST_ALL") != nullptr;
  std::vector<Case> cases = {{}, {.trainers = 8, .servers = 16, .each = 8}, {.trainers = 32}};
  if (all) cases.push_back({.trainers = 64, .servers = 1000, .each = 16});
  for (const Case& what : cases) {
    sim::Simulator simulator(1);
    PolicyFleet fleet(simulator, model_of(simulator.random(), what));
    fleet.run();
    EXPECT_EQ(fleet.problem(), "");
    EXPECT_LE(worst_of_mean(parts(fleet)), kFair) << what.trainers << " trainers";
    for (size_t i = 0; i < what.trainers; ++i) {
      const auto given = static_cast<double>(fleet.counts().trainers[i].given);
      EXPECT_LE((fleet.host_part(i) + fleet.servers_part(i)) / given, 1.15) << what.trainers;
    }
    expect_small_queues_and_few_messages(fleet);
  }
}

TEST(PolicyFleet, ATrainerThatNeedsLessLeavesTheRestToTheOthers) {
  sim::Simulator simulator(1);
  FleetModel model = model_of(simulator.random(), {});
  constexpr size_t kModest = 8;
  // Needs a quarter of a host's rate from prep servers, and its equal share is a whole host's rate.
  constexpr double kConsumer = 0.8;
  for (size_t i = 0; i < kModest; ++i) model.trainers[i].consumer = Speed(kConsumer * kA);
  PolicyFleet fleet(simulator, model);
  fleet.run();
  EXPECT_EQ(fleet.problem(), "");
  for (size_t i = 0; i < kModest; ++i) {
    const double wanted = (model.until_ns - model.from_ns) / (kConsumer * kA);
    EXPECT_GE(static_cast<double>(fleet.counts().trainers[i].given), 0.95 * wanted);
  }
  const std::vector<double> greedy = parts(fleet, kModest);
  EXPECT_LE(worst_of_mean(greedy), kFair);
  // More than an equal part, because the others leave some.
  EXPECT_GE(std::accumulate(greedy.begin(), greedy.end(), 0.0) / 8, 1.3);
}

TEST(PolicyFleet, PartsAreEqualAgainAfterServersDiedAndTrainersCameLate) {
  sim::Simulator simulator(1);
  FleetModel model = model_of(simulator.random(), {});
  model.servers[0].changes_ns = {model.from_ns * 0.2, model.from_ns * 0.5};
  model.servers[1].changes_ns = {model.from_ns * 0.3, model.from_ns * 0.4};
  for (size_t i = 0; i < 8; ++i) model.trainers[i].start_ns = model.from_ns * 0.6;
  PolicyFleet fleet(simulator, model);
  fleet.run();
  EXPECT_EQ(fleet.problem(), "");
  EXPECT_LE(worst_of_mean(parts(fleet)), kFair);
  expect_small_queues_and_few_messages(fleet);
}

}  // namespace
}  // namespace forebay::prep
