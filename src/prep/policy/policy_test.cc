// Properties of all policies, and single situations.
#include "prep/policy/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "prep/policy/testing/policy_world.h"

namespace forebay::prep {
namespace {

using Kind = PolicyEvent::Kind;

constexpr double kA = 1e6;  // the host's period in nanoseconds
constexpr PolicyKind kPolicies[] = {PolicyKind::kInterleave, PolicyKind::kMte, PolicyKind::kWrr};

// A world whose periods are relative to the host's.
WorldModel model_of(PolicyKind policy, double g, const std::vector<double>& servers) {
  WorldModel model;
  model.options.policy = policy;
  model.options.any_order = policy != PolicyKind::kInterleave;
  model.options.steps_each = 500;
  model.options.here_max = 12;
  model.options.kept_max = 1000;
  model.steps = 2000;
  model.host = Speed(kA);
  model.consumer = Speed(g * kA);
  for (const double b : servers) model.servers.push_back({.speed = Speed(b * kA)});
  return model;
}

std::vector<double> shares(const WorldModel& model) {
  sim::Simulator simulator(1);
  PolicyWorld world(simulator, model);
  world.run();
  EXPECT_EQ(world.problem(), "");
  std::vector<double> shares;
  const auto all = static_cast<double>(model.steps);
  shares.push_back(static_cast<double>(world.policy().host().steps) / all);
  for (uint32_t i = 0; i < model.servers.size(); ++i) {
    shares.push_back(static_cast<double>(world.policy().server(i).steps) / all);
  }
  return shares;
}

TEST(Policy, ManyServersShareByTheirRates) {
  for (const PolicyKind policy : {PolicyKind::kInterleave, PolicyKind::kWrr}) {
    const std::vector<double> got = shares(model_of(policy, 0.1, {2, 3, 6}));
    const std::vector<double> expected = {1.0 / 2, 1.0 / 4, 1.0 / 6, 1.0 / 12};
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(got[i] / expected[i], 1, 0.05) << "maker " << i;
    }
  }
}

TEST(Policy, ManyServersShareTheTailByTheirRates) {
  const double g = 0.1;
  const std::vector<double> got = shares(model_of(PolicyKind::kMte, g, {2, 3, 6}));
  const double tail = 1 / (1 + 1 - g);  // the servers together are as fast as the host
  EXPECT_NEAR(got[1], tail / 2, 0.05 * tail);
  EXPECT_NEAR(got[2], tail / 3, 0.05 * tail);
  EXPECT_NEAR(got[3], tail / 6, 0.05 * tail);
}

TEST(Policy, WhatHidesNothingIsNotAskedFor) {
  for (const double g : {1.0, 1.25, 2.0}) {
    sim::Simulator simulator(1);
    PolicyWorld world(simulator, model_of(PolicyKind::kInterleave, g, {1, 4}));
    world.run();
    EXPECT_EQ(world.problem(), "");
    EXPECT_LE(world.asked(), 20u) << "of 2000, g = " << g;
  }
}

TEST(Policy, ASlowTrainerNeedsOnlyWhatTheHostDoesNotManage) {
  for (const double g : {0.8, 0.9}) {
    const std::vector<double> got = shares(model_of(PolicyKind::kInterleave, g, {1}));
    EXPECT_NEAR(got[1], 1 - g, 0.05 * (1 - g)) << "g = " << g;
  }
}

// The consumer is twice as slow as the host, because the host's work occupies its processors.
TEST(Policy, AConsumerThatMissesProcessorsIsHelped) {
  for (const double b : {3.0, 8.0}) {
    WorldModel model = model_of(PolicyKind::kInterleave, 2, {b});
    model.is_host_short = true;
    const double share = shares(model)[1];
    EXPECT_GE(share, 0.9 * 2 / b);
  }
}

// The host could make every step in time, but so can the servers.
TEST(Policy, AHostWhoseWorkCostsTheConsumerRests) {
  for (const std::vector<double>& b : {std::vector{1.0}, {1.5}, {3.0, 3.0}}) {
    WorldModel model = model_of(PolicyKind::kInterleave, 2, b);
    model.is_host_short = true;
    EXPECT_LE(shares(model)[0], 0.15);
  }
}

TEST(Policy, AHostThatRestedTakesOverWhenServersGo) {
  WorldModel model = model_of(PolicyKind::kInterleave, 2, {1});
  model.is_host_short = true;
  model.servers[0].changes_ns = {300 * kA};
  sim::Simulator simulator(1);
  PolicyWorld world(simulator, model);
  world.run();
  EXPECT_EQ(world.problem(), "");
  EXPECT_GT(world.policy().server(0).steps, 100u);
  const auto steps = static_cast<double>(model.steps);
  EXPECT_LE(world.end_ns(), (2 * steps + 10) * kA);
}

TEST(Policy, NothingIsAskedForAfterTheEnd) {
  for (const PolicyKind policy : kPolicies) {
    WorldModel model = model_of(policy, 0.3, {0.5, 4});
    model.options.steps_each = 100;
    model.options.end = model.steps = 100;
    EXPECT_GT(shares(model)[1], 0.2);  // PolicyWorld checks the steps that are asked for
  }
}

TEST(Policy, WhatWasSeenBeforeIsUsedAtOnce) {
  WorldModel model = model_of(PolicyKind::kInterleave, 0.1, {10});
  model.options.steps_each = model.options.end = model.steps = 40;
  const double before = shares(model)[1];
  model.options.host_step_ns = kA;
  model.options.server_steps_ns = {10 * kA};
  const double after = shares(model)[1];
  EXPECT_GT(after, before);
  EXPECT_GE(after, 3.0 / 40);
}

TEST(Policy, MovingTowardsEachOtherHasAFixedOrder) {
  std::vector<StepNumber> orders[2];
  for (int i = 0; i < 2; ++i) {
    sim::Simulator simulator(static_cast<uint64_t>(i));
    WorldModel model = model_of(PolicyKind::kMte, 0.3, {4});
    PolicyWorld world(simulator, model);
    world.run();
    orders[i] = world.given();
  }
  EXPECT_EQ(orders[0], orders[1]);
  // The host's part in its order, and then the tail from the end on.
  for (size_t epoch = 0; epoch < 4; ++epoch) {
    const auto begin = orders[0].begin() + static_cast<ptrdiff_t>(500 * epoch);
    const auto top = std::max_element(begin, begin + 500);
    EXPECT_TRUE(std::is_sorted(begin, top));
    EXPECT_TRUE(std::is_sorted(top, begin + 500, std::greater<>()));
  }
}

TEST(Policy, WithoutPrepServersTheHostMakesEverything) {
  for (const PolicyKind policy : kPolicies) {
    EXPECT_THAT(shares(model_of(policy, 0.5, {})), testing::ElementsAre(1));
    WorldModel model = model_of(policy, 0.5, {2, 2});
    for (ServerModel& server : model.servers) server.changes_ns = {1};
    EXPECT_EQ(shares(model)[0], 1);
  }
}

TEST(Policy, ASideThatComesBackIsUsedAgain) {
  for (const PolicyKind policy : kPolicies) {
    WorldModel model = model_of(policy, 0.2, {2});
    model.servers[0].changes_ns = {0.3e9, 0.6e9};  // the run takes about 1.5e9
    const double got = shares(model)[1];
    EXPECT_GT(got, 0.2);
    EXPECT_LT(got, 0.32);
  }
}

TEST(Policy, AStepThatASideCannotPrepareIsTheHosts) {
  for (const PolicyKind policy : kPolicies) {
    WorldModel model = model_of(policy, 0.5, {2});
    model.servers[0].failing = 1;
    EXPECT_EQ(shares(model)[0], 1);
  }
}

TEST(Policy, ResumingGivesEachStepOnce) {
  sim::for_each_seed(60, [](sim::Simulator& simulator) {
    for (const PolicyKind policy : kPolicies) {
      WorldModel model = model_of(policy, 0.3, {1.5, 5});
      model.options.steps_each = 60;
      model.steps = 1 + simulator.random().below(179);
      sim::Simulator first_simulator(simulator.random().next_u64());
      model.is_cut = true;
      PolicyWorld first(first_simulator, model);
      first.run();
      model.is_cut = false;
      WorldModel rest = model;
      rest.options.policy = kPolicies[simulator.random().below(3)];
      rest.options.any_order = rest.options.policy != PolicyKind::kInterleave;
      rest.options.first = first.policy().position();
      rest.options.over = first.policy().over();
      rest.steps = 180 - rest.options.first - rest.options.over.size();
      sim::Simulator second_simulator(simulator.random().next_u64());
      PolicyWorld second(second_simulator, rest);
      if (rest.steps > 0) second.run();
      ASSERT_EQ(first.problem() + second.problem(), "");
      std::set<StepNumber> all(first.given().begin(), first.given().end());
      all.insert(second.given().begin(), second.given().end());
      ASSERT_EQ(all.size(), 180u);
      ASSERT_EQ(first.given().size() + second.given().size(), 180u);
      ASSERT_EQ(*all.rbegin(), 179u);
    }
  });
}

TEST(Policy, ALateStepIsRescued) {
  WorldModel model = model_of(PolicyKind::kInterleave, 0.2, {3});
  model.steps = 200;
  // The server stops in the middle of a step without saying so.
  model.servers[0].speed.change(50 * kA, std::numeric_limits<double>::infinity());
  model.servers[0].speed.change(1e5 * kA, kA);
  sim::Simulator simulator(1);
  PolicyWorld world(simulator, model);
  world.run();
  EXPECT_EQ(world.problem(), "");
  EXPECT_GE(world.rescues(), 1u);
  EXPECT_LE(world.rescues(), 6u);
  EXPECT_GE(world.policy().server(0).late, 1u);
  // The host alone needs 200, and 50 were shared.
  EXPECT_LE(world.end_ns(), 200 * kA);
}

// Host and server become up to a third faster or slower every few steps. A step that the server has
// begun is then hardly ever given up, because the host has other steps to work at.
TEST(Policy, UnsteadyMakersAreWaitedFor) {
  for (const double b : {6.0, 15.0}) {
    for (const uint32_t begun_most : {1u, 2u}) {
      WorldModel model = model_of(PolicyKind::kInterleave, 0.1, {b});
      model.begun_most = begun_most;
      sim::Simulator simulator(1);
      for (double now = 0; now < 2000; now += b) {
        const auto unsteady = [&](Speed& speed, double period) {
          speed.change(now * kA, period * (1 + (2 * simulator.random().uniform() - 1) / 3) * kA);
        };
        unsteady(model.host, 1);
        unsteady(model.servers[0].speed, b);
      }
      PolicyWorld world(simulator, model);
      world.run();
      EXPECT_EQ(world.problem(), "");
      const PolicyShare server = world.policy().server(0);
      EXPECT_GE(static_cast<double>(server.steps), 0.95 * 2000 / (1 + b));
      EXPECT_LE(server.late, server.steps / 30);
    }
  }
}

TEST(Policy, AStepThatIsComparedIsNotLate) {
  for (const PolicyKind policy : kPolicies) {
    WorldModel model = model_of(policy, 0.1, {3});
    model.servers[0].transfer_ns = 0.01 * kA;  // far less than the host takes to compare
    model.servers[0].checked = 0.05;
    sim::Simulator simulator(1);
    PolicyWorld world(simulator, model);
    world.run();
    EXPECT_EQ(world.problem(), "");
    EXPECT_GT(world.policy().server(0).steps, model.steps / 6);
    EXPECT_LE(world.policy().server(0).late, 4u);
    EXPECT_LE(world.rescues(), 4u);
  }
}

TEST(Policy, WhatASideMadeWrongIsTheHosts) {
  const auto policy =
      Policy::make({.policy = PolicyKind::kWrr, .any_order = true, .steps_each = 2});
  int64_t now_ns = 0;
  const auto tell = [&](Kind kind, StepNumber step) {
    now_ns += 1000;
    return policy->step({.kind = kind, .now_ns = now_ns, .step = step});
  };
  const auto asked = tell(Kind::kServerUp, 0);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].kind, PolicyAction::Kind::kFetch);
  EXPECT_EQ(asked[0].step, 1u);
  EXPECT_TRUE(tell(Kind::kConsumerAsks, 0).empty());
  for (const auto& action : tell(Kind::kServerChecked, 1)) {
    EXPECT_NE(action.kind, PolicyAction::Kind::kGive);
  }
  for (const auto& action : tell(Kind::kServerDown, 0)) {
    EXPECT_NE(action.kind, PolicyAction::Kind::kGive);
  }
  const auto given = tell(Kind::kRescued, 1);
  ASSERT_EQ(given.size(), 1u);
  EXPECT_EQ(given[0].kind, PolicyAction::Kind::kGive);
  EXPECT_EQ(given[0].step, 1u);
  EXPECT_EQ(policy->server(0).steps, 0u);
  EXPECT_EQ(policy->host().steps, 1u);
}

TEST(Policy, ASideKeepsNoMoreThanItCan) {
  WorldModel model = model_of(PolicyKind::kMte, 0.1, {2, 3});
  model.servers[0].keeps = 3;
  model.servers[1].keeps = 1;
  const std::vector<double> got = shares(model);  // PolicyWorld checks it
  EXPECT_GT(got[1], 0);
  EXPECT_GT(got[2], 0);
}

TEST(Policy, EventsThatCameTooLateChangeNothing) {
  for (const PolicyKind kind_of_policy : kPolicies) {
    const auto policy = Policy::make(
        {.policy = kind_of_policy, .any_order = true, .steps_each = 100, .kept_max = 10});
    int64_t now_ns = 0;
    const auto tell = [&](Kind kind, StepNumber step) {
      now_ns += 1000;
      return policy->step({.kind = kind, .now_ns = now_ns, .step = step});
    };
    EXPECT_EQ(tell(Kind::kHostAsks, 0).front().kind, PolicyAction::Kind::kHostMakes);
    for (const Kind kind :
         {Kind::kServerGave, Kind::kServerKeeps, Kind::kServerFailed, Kind::kRescued}) {
      for (const StepNumber step : {0u, 1u, 99u}) EXPECT_TRUE(tell(kind, step).empty());
    }
    EXPECT_TRUE(tell(Kind::kConsumerAsks, 0).empty());
    EXPECT_EQ(tell(Kind::kHostMade, 0).front().kind, PolicyAction::Kind::kGive);
    EXPECT_TRUE(tell(Kind::kHostMade, 0).empty());
    EXPECT_EQ(policy->position(), 1u);
  }
}

}  // namespace
}  // namespace forebay::prep
