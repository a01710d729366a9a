// The time of an epoch against what is possible, and against the closed forms of DDLP's policies.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "prep/policy/testing/policy_world.h"

namespace forebay::prep {
namespace {

constexpr double kA = 1e6;  // the host's period in nanoseconds; the others are relative to it

struct Case {
  PolicyKind policy = PolicyKind::kInterleave;
  double b = 1;
  double g = 1;
  double r = 0;
  uint64_t steps_each = 400;
  double noise = 0;    // periods change by up to this part of them
  double first_r = 0;  // the time for sending each of the first two steps; 0: same as r
};

struct Outcome {
  double epoch = 0;  // its mean time from the second one on, relative to the host's period
  double tail = 0;   // steps of an epoch that the prep server made
  uint64_t asked = 0;
};

Speed speed_of(sim::Simulator& simulator, double period, double noise, double end) {
  Speed speed(period * kA);
  for (double now = period; noise > 0 && now < end; now += period) {
    const double factor = 1 + noise * (2 * simulator.random().uniform() - 1);
    speed.change(now * kA, period * factor * kA);
  }
  return speed;
}

Outcome run(const Case& what) {
  constexpr uint64_t kEpochs = 4;
  sim::Simulator simulator(1);
  WorldModel model;
  model.options.policy = what.policy;
  model.options.any_order = what.policy != PolicyKind::kInterleave;
  model.options.steps_each = what.steps_each;
  model.options.kept_max = 1u << 20;
  model.steps = what.steps_each * kEpochs;
  const double end = static_cast<double>(model.steps) * std::max(1.0, what.g);
  model.host = speed_of(simulator, 1, what.noise, end);
  model.consumer = speed_of(simulator, what.g, what.noise, end);
  model.servers = {
      {.speed = speed_of(simulator, what.b, what.noise, end), .transfer_ns = what.r * kA}};
  if (what.first_r > 0)
    model.servers[0].first_transfers_ns = {what.first_r * kA, what.first_r * kA};
  PolicyWorld world(simulator, model);
  world.run();
  EXPECT_EQ(world.problem(), "");
  const uint64_t each = what.steps_each;
  const double ns = world.given_ns()[(kEpochs - 1) * each] - world.given_ns()[each];
  const auto of_server = static_cast<double>(world.policy().server(0).steps);
  return {.epoch = ns / kA / (kEpochs - 2), .tail = of_server / kEpochs, .asked = world.asked()};
}

double bound(const Case& what) {
  return static_cast<double>(what.steps_each) * std::max(1 / (1 + 1 / what.b), what.g);
}

constexpr double kSlownesses[] = {1, 2, 4, 10};
constexpr double kConsumers[] = {0.25, 0.5, 0.8, 1, 1.25, 2, 4};

TEST(ClosedForms, InterleavedStepsTakeWhatIsPossible) {
  fmt::print("of_bound     ");
  for (const double g : kConsumers) fmt::print(" g={:<5}", g);
  for (const double b : kSlownesses) {
    fmt::print("\n       b={:<4}", b);
    for (const double g : kConsumers) {
      const Case what{.b = b, .g = g};
      const double of_bound = run(what).epoch / bound(what);
      fmt::print(" {:.4f} ", of_bound);
      EXPECT_LE(of_bound, 1.03) << "b = " << b << ", g = " << g;
    }
  }
  fmt::print("\n");
}

TEST(ClosedForms, InterleavedStepsAreNotBehindTheOtherPolicies) {
  for (const double b : kSlownesses) {
    for (const double g : kConsumers) {
      const double interleave = run({.b = b, .g = g}).epoch;
      const double mte = run({.policy = PolicyKind::kMte, .b = b, .g = g}).epoch;
      const double wrr = run({.policy = PolicyKind::kWrr, .b = b, .g = g}).epoch;
      EXPECT_LE(interleave, 1.01 * std::min(mte, wrr)) << "b = " << b << ", g = " << g;
    }
  }
}

TEST(ClosedForms, NoiseCostsLittle) {
  double worst = 0;
  for (const double b : kSlownesses) {
    for (const double g : kConsumers) {
      const Case what{.b = b, .g = g, .r = 0.05, .noise = 0.3};
      const double of_bound = run(what).epoch / bound(what);
      worst = std::max(worst, of_bound);
      EXPECT_LE(of_bound, 1.08) << "b = " << b << ", g = " << g;
    }
  }
  fmt::print("of_bound with noise: at most {:.4f}\n", worst);
}

// A prep server four times slower than the host: at most a quarter can be gained. DDLP's authors
// report 23.5 % for their best case.
TEST(ClosedForms, AlmostAQuarterIsGainedWithASideFourTimesSlower) {
  for (const PolicyKind policy : {PolicyKind::kInterleave, PolicyKind::kWrr}) {
    const double epoch =
        run({.policy = policy, .b = 4, .g = 0.3, .r = 0.05, .steps_each = 1000}).epoch;
    fmt::print("gain {:.2f} %\n", 100 * (1000 / epoch - 1));
    EXPECT_GE(1000 / epoch - 1, 0.235);
  }
}

// Rows of (g, b, r) with a = 1, for which MTE's closed form was derived. Steps are sent ahead, so
// that draining a step takes s = max(g, r).
TEST(ClosedForms, MovingTowardsEachOtherTakesWhatItsFormSays) {
  const std::tuple<double, double, double> rows[] = {{0.6, 5, 0.05},  {0.6, 3, 0.05},
                                                     {0.3, 4, 0.05},  {0.8, 4, 0.02},
                                                     {0.95, 4, 0.02}, {1.2, 4, 0.02}};
  for (const auto& [g, b, r] : rows) {
    for (const uint64_t steps_each : {400u, 4000u}) {
      const auto n_all = static_cast<double>(steps_each);
      const double s = std::max(g, r);
      const double n = g < 1 ? std::floor(n_all / (1 + b - s)) : 0;
      const double form = (n_all - n) * std::max(1.0, g) + n * s;
      const Case what{.policy = PolicyKind::kMte, .b = b, .g = g, .r = r, .steps_each = steps_each};
      const Outcome mte = run(what);
      EXPECT_NEAR(mte.epoch / form, 1, 0.03) << "g = " << g << ", b = " << b;
      EXPECT_NEAR(mte.tail, n, 0.03 * n_all) << "g = " << g << ", b = " << b;
      if (steps_each == 4000) {
        fmt::print("g={} b={} r={}: mte {:.0f} (form {:.0f})", g, b, r, mte.epoch, form);
        for (const PolicyKind policy : {PolicyKind::kWrr, PolicyKind::kInterleave}) {
          Case other = what;
          other.policy = policy;
          fmt::print(" {:.0f}", run(other).epoch);
        }
        fmt::print(" bound {:.0f}\n", bound(what));
      }
    }
  }
}

// The first steps are often sent slowly, into new memory and while the host is at work. They must
// not take an epoch's tail from the prep servers, which would leave the host alone.
TEST(ClosedForms, SlowFirstTransfersAreForgotten) {
  for (const double b : kSlownesses) {
    const Case what{
        .policy = PolicyKind::kMte, .b = b, .g = 0.1, .r = 0.15, .steps_each = 90, .first_r = 4};
    Case even = what;
    even.first_r = 0;
    EXPECT_LE(run(what).epoch, 1.02 * run(even).epoch) << "b = " << b;
    EXPECT_LE(run(what).epoch, 1.08 * 90 * b / (1 + b - what.r)) << "b = " << b;
  }
}

}  // namespace
}  // namespace forebay::prep
