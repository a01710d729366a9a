// All policies in worlds whose rates change in drawn ways.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "plan/testing/prong_world.h"

namespace forebay::plan {
namespace {

constexpr double kA = 1e6;
constexpr double kPause = std::numeric_limits<double>::infinity();

struct Drawn {
  WorldModel model;
  uint64_t deaths = 0;
  std::string text;
};

double between(base::Random& random, double low, double high) {  // log-uniform
  return low * std::pow(high / low, random.uniform());
}

Speed drawn_speed(base::Random& random, double period, double end_ns, std::string& text) {
  Speed speed(period);
  const uint64_t kind = random.below(6);
  text += fmt::format("{:.2f}:{} ", period / kA, kind);
  double now = 0;
  switch (kind) {
    case 0: break;
    case 1:  // steps
      for (uint64_t i = random.below(6); i > 0; --i) {
        now += random.uniform() * end_ns / 3;
        speed.change(now, period * between(random, 0.2, 5));
      }
      break;
    case 2: {  // drift
      const double to = between(random, 0.2, 5);
      for (int i = 1; i <= 40; ++i) speed.change(end_ns * i / 40, period * std::pow(to, i / 40.0));
      break;
    }
    case 3:  // pauses
      for (uint64_t i = 1 + random.below(3); i > 0; --i) {
        now += between(random, 0.1, 1) * end_ns / 2;
        speed.change(now, kPause);
        now += between(random, 1, 30) * kA;
        speed.change(now, period);
      }
      break;
    case 4: {  // bursts
      const double slow = between(random, 2, 8);
      while (now < end_ns) {
        now += between(random, 2, 30) * period;
        speed.change(now, period * slow);
        now += between(random, 2, 30) * period;
        speed.change(now, period);
      }
      break;
    }
    default:  // noise
      while (now < end_ns) {
        now += period;
        speed.change(now, period * between(random, 0.6, 1.6));
      }
  }
  return speed;
}

Drawn draw(base::Random& random, ProngPolicy policy) {
  Drawn drawn;
  WorldModel& model = drawn.model;
  model.options.policy = policy;
  model.options.any_order = policy != ProngPolicy::kInterleave || random.below(3) == 0;
  model.options.steps_each = 20 + random.below(100);
  model.options.here_max = 4 + static_cast<uint32_t>(random.below(5));
  model.options.kept_max = 2 + static_cast<uint32_t>(random.below(100));
  model.steps = model.options.steps_each * 3;
  const double end_ns = static_cast<double>(model.steps) * kA;
  model.host = drawn_speed(random, kA, end_ns, drawn.text);
  model.consumer = drawn_speed(random, between(random, 0.1, 1.5) * kA, end_ns, drawn.text);
  for (uint64_t sides = 1 + random.below(3); sides > 0; --sides) {
    SideModel side;
    side.speed = drawn_speed(random, between(random, 0.5, 12) * kA, end_ns, drawn.text);
    if (random.below(2) == 0) side.transfer_ns = between(random, 0.01, 3) * kA;
    double now = 0;
    for (uint64_t deaths = random.below(3) * random.below(2); deaths > 0; --deaths) {
      now += between(random, 0.02, 1) * end_ns / 2;
      side.changes_ns.push_back(now);
      now += between(random, 0.001, 1) * end_ns / 4;
      side.changes_ns.push_back(now);
      ++drawn.deaths;
    }
    if (random.below(4) == 0) side.failing = between(random, 0.01, 1);
    drawn.text += fmt::format("(r {:.2f} fails {:.2f} deaths {}) ", side.transfer_ns / kA, side.failing, side.changes_ns.size());
    model.sides.push_back(side);
  }
  return drawn;
}

TEST(Patterns, Print) {
  for (const ProngPolicy policy :
       {ProngPolicy::kInterleave, ProngPolicy::kMte, ProngPolicy::kWrr}) {
    if (getenv("P") && atoi(getenv("P")) != static_cast<int>(policy)) continue;
    double sum = 0, sum_bound = 0;
    int count = 0; int seed = -1;
    std::vector<std::pair<double, std::string>> worst;
    sim::for_each_seed(1000, [&](sim::Simulator& simulator) {
      ++seed;
      base::Random random = simulator.random();
      Drawn drawn = draw(random, policy);
      WorldModel alone = drawn.model;
      alone.sides.clear();
      sim::Simulator other(1);
      ProngWorld host_alone(other, alone);
      host_alone.run();
      ASSERT_EQ(host_alone.problem(), "");
      ProngWorld world(simulator, drawn.model);
      world.run();
      ASSERT_EQ(world.problem(), "");
      const double ratio = world.end_ns() / host_alone.end_ns();
      const double lost = (world.end_ns() - host_alone.end_ns()) / kA;
      // the integral bound
      double low = 0, high = host_alone.end_ns();
      for (int i = 0; i < 50; ++i) {
        const double mid = (low + high) / 2;
        double work = drawn.model.host.work(0, mid);
        for (const auto& side : drawn.model.sides) work += side.speed.work(0, mid);
        (work < static_cast<double>(drawn.model.steps) ? low : high) = mid;
      }
      const double bound = std::max(high, drawn.model.consumer.end_ns(0, static_cast<double>(drawn.model.steps)));
      sum += ratio;
      sum_bound += world.end_ns() / bound;
      ++count;
      worst.emplace_back(ratio, fmt::format("seed {} ratio {:.3f} lost {:.1f}a of {:.0f}a rescues {} N {} {}", seed, ratio, lost, host_alone.end_ns() / kA, world.rescues(), drawn.model.options.steps_each, drawn.text));
    });
    std::sort(worst.rbegin(), worst.rend());
    fmt::print("policy {}: mean of host alone {:.3f} of bound {:.3f}\n", static_cast<int>(policy), sum / count, sum_bound / count);
    for (size_t i = 0; i < std::min<size_t>(worst.size(), 12); ++i) fmt::print("   {}\n", worst[i].second);
  }
}

}  // namespace
}  // namespace forebay::plan
