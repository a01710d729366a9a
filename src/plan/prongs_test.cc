#include "plan/prongs.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "plan/testing/prong_world.h"

namespace forebay::plan {
namespace {

constexpr double kA = 1e6;  // nanoseconds: the host's period

WorldModel model_of(ProngPolicy policy, double b, double g, uint64_t steps_each, uint64_t epochs) {
  WorldModel model;
  model.options.policy = policy;
  model.options.any_order = policy != ProngPolicy::kInterleave;
  model.options.steps_each = steps_each;
  model.options.kept_max = 1u << 20;
  model.steps = steps_each * epochs;
  model.host = Speed(kA);
  model.consumer = Speed(g * kA);
  model.sides = {{.speed = Speed(b * kA)}};
  return model;
}

double epochs_ns(const ProngWorld& world, uint64_t from, uint64_t to) {
  return world.given_ns()[to] - world.given_ns()[from];
}

TEST(Prongs, GridOfBound) {
  for (const ProngPolicy policy : {ProngPolicy::kInterleave, ProngPolicy::kMte, ProngPolicy::kWrr}) {
    for (const double b : {0.25, 0.5, 1.0, 2.0, 4.0, 10.0}) {
      for (const double g : {0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0}) {
        sim::Simulator simulator(1);
        ProngWorld world(simulator, model_of(policy, b, g, 400, 4));
        world.run();
        EXPECT_EQ(world.problem(), "") << b << " " << g;
        if (!world.problem().empty()) continue;
        const double bound = 800 * kA * std::max(1 / (1 + 1 / b), g);
        fmt::print("{} b={} g={}: of_bound {:.4f} asked {} rescues {}\n", static_cast<int>(policy), b,
                   g, epochs_ns(world, 400, 1200) / bound, world.asked(), world.rescues());
      }
    }
  }
}

TEST(Prongs, Debug) {
  if (getenv("DBG") == nullptr) return;
  sim::Simulator simulator(1);
  ProngWorld world(simulator, model_of(static_cast<ProngPolicy>(atoi(getenv("P"))), atof(getenv("B")), atof(getenv("G")), 400, 4));
  world.run();
  EXPECT_EQ(world.problem(), "");
}

}  // namespace
}  // namespace forebay::plan
