// What all policies have in common, and what single situations lead to.
#include "plan/prongs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "plan/testing/prong_world.h"

namespace forebay::plan {
namespace {

using Kind = ProngEvent::Kind;

constexpr double kA = 1e6;  // the host's period in nanoseconds
constexpr ProngPolicy kPolicies[] = {ProngPolicy::kInterleave, ProngPolicy::kMte,
                                     ProngPolicy::kWrr};

// A world whose periods are relative to the host's.
WorldModel model_of(ProngPolicy policy, double g, const std::vector<double>& sides) {
  WorldModel model;
  model.options.policy = policy;
  model.options.any_order = policy != ProngPolicy::kInterleave;
  model.options.steps_each = 500;
  model.options.here_max = 12;
  model.options.kept_max = 1000;
  model.steps = 2000;
  model.host = Speed(kA);
  model.consumer = Speed(g * kA);
  for (const double b : sides) model.sides.push_back({.speed = Speed(b * kA)});
  return model;
}

std::vector<double> shares(const WorldModel& model) {
  sim::Simulator simulator(1);
  ProngWorld world(simulator, model);
  world.run();
  EXPECT_EQ(world.problem(), "");
  std::vector<double> shares;
  const auto all = static_cast<double>(model.steps);
  shares.push_back(static_cast<double>(world.prongs().host().steps) / all);
  for (uint32_t i = 0; i < model.sides.size(); ++i) {
    shares.push_back(static_cast<double>(world.prongs().side(i).steps) / all);
  }
  return shares;
}

TEST(Prongs, ManySidesShareByTheirRates) {
  for (const ProngPolicy policy : {ProngPolicy::kInterleave, ProngPolicy::kWrr}) {
    const std::vector<double> got = shares(model_of(policy, 0.1, {2, 3, 6}));
    const std::vector<double> expected = {1.0 / 2, 1.0 / 4, 1.0 / 6, 1.0 / 12};
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(got[i] / expected[i], 1, 0.05) << "maker " << i;
    }
  }
}

TEST(Prongs, ManySidesShareTheTailByTheirRates) {
  const double g = 0.1;
  const std::vector<double> got = shares(model_of(ProngPolicy::kMte, g, {2, 3, 6}));
  const double tail = 1 / (1 + 1 - g);  // the sides together are as fast as the host
  EXPECT_NEAR(got[1], tail / 2, 0.05 * tail);
  EXPECT_NEAR(got[2], tail / 3, 0.05 * tail);
  EXPECT_NEAR(got[3], tail / 6, 0.05 * tail);
}

TEST(Prongs, WhatHidesNothingIsNotAskedFor) {
  for (const double g : {1.0, 1.25, 2.0}) {
    sim::Simulator simulator(1);
    ProngWorld world(simulator, model_of(ProngPolicy::kInterleave, g, {1, 4}));
    world.run();
    EXPECT_EQ(world.problem(), "");
    EXPECT_LE(world.asked(), 20u) << "of 2000, g = " << g;
  }
}

TEST(Prongs, ASlowTrainerNeedsOnlyWhatTheHostDoesNotManage) {
  for (const double g : {0.8, 0.9}) {
    const std::vector<double> got = shares(model_of(ProngPolicy::kInterleave, g, {1}));
    EXPECT_NEAR(got[1], 1 - g, 0.05 * (1 - g)) << "g = " << g;
  }
}

// The consumer is twice as slow as the host, because the host's work takes it processors.
TEST(Prongs, AConsumerThatMissesProcessorsIsHelped) {
  for (const double b : {3.0, 8.0}) {
    WorldModel model = model_of(ProngPolicy::kInterleave, 2, {b});
    model.is_host_short = true;
    const double share = shares(model)[1];
    EXPECT_GE(share, 0.9 * 2 / b);
  }
}

// The host could make every step in time, but sides can, too.
TEST(Prongs, AHostWhoseWorkCostsTheConsumerRests) {
  for (const std::vector<double>& b : {std::vector{1.0}, {1.5}, {3.0, 3.0}}) {
    WorldModel model = model_of(ProngPolicy::kInterleave, 2, b);
    model.is_host_short = true;
    EXPECT_LE(shares(model)[0], 0.15);
  }
}

TEST(Prongs, AHostThatRestedTakesOverWhenSidesGo) {
  WorldModel model = model_of(ProngPolicy::kInterleave, 2, {1});
  model.is_host_short = true;
  model.sides[0].changes_ns = {300 * kA};
  sim::Simulator simulator(1);
  ProngWorld world(simulator, model);
  world.run();
  EXPECT_EQ(world.problem(), "");
  EXPECT_GT(world.prongs().side(0).steps, 100u);
  const auto steps = static_cast<double>(model.steps);
  EXPECT_LE(world.end_ns(), (2 * steps + 10) * kA);
}

TEST(Prongs, NothingIsAskedForAfterTheEnd) {
  for (const ProngPolicy policy : kPolicies) {
    WorldModel model = model_of(policy, 0.3, {0.5, 4});
    model.options.steps_each = 100;
    model.options.end = model.steps = 100;
    EXPECT_GT(shares(model)[1], 0.2);  // the world looks at what is asked for
  }
}

TEST(Prongs, WhatWasSeenBeforeIsUsedAtOnce) {
  WorldModel model = model_of(ProngPolicy::kInterleave, 0.1, {10});
  model.options.steps_each = model.options.end = model.steps = 40;
  const double before = shares(model)[1];
  model.options.host_step_ns = kA;
  model.options.side_steps_ns = {10 * kA};
  const double after = shares(model)[1];
  EXPECT_GT(after, before);
  EXPECT_GE(after, 3.0 / 40);
}

TEST(Prongs, MovingTowardsEachOtherHasAFixedOrder) {
  std::vector<StepNumber> orders[2];
  for (int i = 0; i < 2; ++i) {
    sim::Simulator simulator(static_cast<uint64_t>(i));
    WorldModel model = model_of(ProngPolicy::kMte, 0.3, {4});
    ProngWorld world(simulator, model);
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

TEST(Prongs, WithoutNearSidesTheHostMakesEverything) {
  for (const ProngPolicy policy : kPolicies) {
    EXPECT_THAT(shares(model_of(policy, 0.5, {})), testing::ElementsAre(1));
    WorldModel model = model_of(policy, 0.5, {2, 2});
    for (SideModel& side : model.sides) side.changes_ns = {1};
    EXPECT_EQ(shares(model)[0], 1);
  }
}

TEST(Prongs, ASideThatComesBackIsUsedAgain) {
  for (const ProngPolicy policy : kPolicies) {
    WorldModel model = model_of(policy, 0.2, {2});
    model.sides[0].changes_ns = {0.3e9, 0.6e9};  // the run takes about 1.5e9
    const double got = shares(model)[1];
    EXPECT_GT(got, 0.2);
    EXPECT_LT(got, 0.32);
  }
}

TEST(Prongs, AStepThatASideCannotPrepareIsTheHosts) {
  for (const ProngPolicy policy : kPolicies) {
    WorldModel model = model_of(policy, 0.5, {2});
    model.sides[0].failing = 1;
    EXPECT_EQ(shares(model)[0], 1);
  }
}

TEST(Prongs, ResumingGivesEachStepOnce) {
  sim::for_each_seed(60, [](sim::Simulator& simulator) {
    for (const ProngPolicy policy : kPolicies) {
      WorldModel model = model_of(policy, 0.3, {1.5, 5});
      model.options.steps_each = 60;
      model.steps = 1 + simulator.random().below(179);
      sim::Simulator first_simulator(simulator.random().next_u64());
      model.is_cut = true;
      ProngWorld first(first_simulator, model);
      first.run();
      model.is_cut = false;
      WorldModel rest = model;
      rest.options.policy = kPolicies[simulator.random().below(3)];
      rest.options.any_order = rest.options.policy != ProngPolicy::kInterleave;
      rest.options.first = first.prongs().position();
      rest.options.over = first.prongs().over();
      rest.steps = 180 - rest.options.first - rest.options.over.size();
      sim::Simulator second_simulator(simulator.random().next_u64());
      ProngWorld second(second_simulator, rest);
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

TEST(Prongs, ALateStepIsRescued) {
  WorldModel model = model_of(ProngPolicy::kInterleave, 0.2, {3});
  model.steps = 200;
  // The side stops in the middle of a step without saying so.
  model.sides[0].speed.change(50 * kA, std::numeric_limits<double>::infinity());
  model.sides[0].speed.change(1e5 * kA, kA);
  sim::Simulator simulator(1);
  ProngWorld world(simulator, model);
  world.run();
  EXPECT_EQ(world.problem(), "");
  EXPECT_GE(world.rescues(), 1u);
  EXPECT_LE(world.rescues(), 6u);
  EXPECT_GE(world.prongs().side(0).late, 1u);
  // The host alone needs 200, and 50 were shared.
  EXPECT_LE(world.end_ns(), 200 * kA);
}

// Both makers are faster or slower by up to a third, for some steps each. What a side has begun is
// then hardly ever given up, since the host has other steps to work at.
TEST(Prongs, UnsteadyMakersAreWaitedFor) {
  for (const double b : {6.0, 15.0}) {
    for (const uint32_t begun_most : {1u, 2u}) {
      WorldModel model = model_of(ProngPolicy::kInterleave, 0.1, {b});
      model.begun_most = begun_most;
      sim::Simulator simulator(1);
      for (double now = 0; now < 2000; now += b) {
        const auto unsteady = [&](Speed& speed, double period) {
          speed.change(now * kA, period * (1 + (2 * simulator.random().uniform() - 1) / 3) * kA);
        };
        unsteady(model.host, 1);
        unsteady(model.sides[0].speed, b);
      }
      ProngWorld world(simulator, model);
      world.run();
      EXPECT_EQ(world.problem(), "");
      const ProngShare side = world.prongs().side(0);
      EXPECT_GE(static_cast<double>(side.steps), 0.95 * 2000 / (1 + b));
      EXPECT_LE(side.late, side.steps / 30);
    }
  }
}

TEST(Prongs, AStepThatIsComparedIsNotLate) {
  for (const ProngPolicy policy : kPolicies) {
    WorldModel model = model_of(policy, 0.1, {3});
    model.sides[0].transfer_ns = 0.01 * kA;  // far less than the host takes to compare
    model.sides[0].checked = 0.05;
    sim::Simulator simulator(1);
    ProngWorld world(simulator, model);
    world.run();
    EXPECT_EQ(world.problem(), "");
    EXPECT_GT(world.prongs().side(0).steps, model.steps / 6);
    EXPECT_LE(world.prongs().side(0).late, 4u);
    EXPECT_LE(world.rescues(), 4u);
  }
}

TEST(Prongs, WhatASideMadeWrongIsTheHosts) {
  const auto prongs =
      Prongs::make({.policy = ProngPolicy::kWrr, .any_order = true, .steps_each = 2});
  int64_t now_ns = 0;
  const auto tell = [&](Kind kind, StepNumber step) {
    now_ns += 1000;
    return prongs->step({.kind = kind, .now_ns = now_ns, .step = step});
  };
  const auto asked = tell(Kind::kSideUp, 0);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].kind, ProngAction::Kind::kFetch);
  EXPECT_EQ(asked[0].step, 1u);
  EXPECT_TRUE(tell(Kind::kConsumerAsks, 0).empty());
  for (const auto& action : tell(Kind::kSideChecked, 1)) {
    EXPECT_NE(action.kind, ProngAction::Kind::kGive);
  }
  for (const auto& action : tell(Kind::kSideDown, 0)) {
    EXPECT_NE(action.kind, ProngAction::Kind::kGive);
  }
  const auto given = tell(Kind::kRescued, 1);
  ASSERT_EQ(given.size(), 1u);
  EXPECT_EQ(given[0].kind, ProngAction::Kind::kGive);
  EXPECT_EQ(given[0].step, 1u);
  EXPECT_EQ(prongs->side(0).steps, 0u);
  EXPECT_EQ(prongs->host().steps, 1u);
}

TEST(Prongs, ASideKeepsNoMoreThanItCan) {
  WorldModel model = model_of(ProngPolicy::kMte, 0.1, {2, 3});
  model.sides[0].keeps = 3;
  model.sides[1].keeps = 1;
  const std::vector<double> got = shares(model);  // the world looks at it
  EXPECT_GT(got[1], 0);
  EXPECT_GT(got[2], 0);
}

TEST(Prongs, EventsThatCameTooLateChangeNothing) {
  for (const ProngPolicy policy : kPolicies) {
    const auto prongs =
        Prongs::make({.policy = policy, .any_order = true, .steps_each = 100, .kept_max = 10});
    int64_t now_ns = 0;
    const auto tell = [&](Kind kind, StepNumber step) {
      now_ns += 1000;
      return prongs->step({.kind = kind, .now_ns = now_ns, .step = step});
    };
    EXPECT_EQ(tell(Kind::kHostAsks, 0).front().kind, ProngAction::Kind::kHostMakes);
    for (const Kind kind : {Kind::kSideGave, Kind::kSideKeeps, Kind::kSideFailed, Kind::kRescued}) {
      for (const StepNumber step : {0u, 1u, 99u}) EXPECT_TRUE(tell(kind, step).empty());
    }
    EXPECT_TRUE(tell(Kind::kConsumerAsks, 0).empty());
    EXPECT_EQ(tell(Kind::kHostMade, 0).front().kind, ProngAction::Kind::kGive);
    EXPECT_TRUE(tell(Kind::kHostMade, 0).empty());
    EXPECT_EQ(prongs->position(), 1u);
  }
}

}  // namespace
}  // namespace forebay::plan
