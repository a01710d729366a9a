// All policies in simulated worlds whose rates change in random patterns.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "prep/policy/testing/policy_world.h"

namespace forebay::prep {
namespace {

constexpr double kA = 1e6;
constexpr double kPause = std::numeric_limits<double>::infinity();

struct Drawn {
  WorldModel model;
  std::string text;  // for messages: the periods with the kinds of their patterns
};

// A random number with a uniform logarithm.
double between(base::Random& random, double low, double high) {
  return low * std::pow(high / low, random.uniform());
}

// Periods that stay, step up and down, drift, pause, come in bursts, or are noisy.
Speed drawn_speed(base::Random& random, double period, double end_ns, std::string& text) {
  Speed speed(period);
  const uint64_t kind = random.below(6);
  constexpr const char* kKinds[] = {"steady", "steps", "drift", "pauses", "bursts", "noise"};
  text += fmt::format("{:.2f} {}, ", period / kA, kKinds[kind]);
  double now = 0;
  const auto change = [&](double after, double to) { speed.change(now += after, to); };
  if (kind == 1) {
    for (uint64_t i = random.below(6); i > 0; --i) {
      change(random.uniform() * end_ns / 3, period * between(random, 0.2, 5));
    }
  } else if (kind == 2) {
    const double to = between(random, 0.2, 5);
    for (int i = 1; i <= 40; ++i) change(end_ns / 40, period * std::pow(to, i / 40.0));
  } else if (kind == 3) {
    for (uint64_t i = 1 + random.below(3); i > 0; --i) {
      change(between(random, 0.1, 1) * end_ns / 2, kPause);
      change(between(random, 1, 30) * kA, period);
    }
  } else if (kind == 4) {
    const double slow = between(random, 2, 8);
    while (now < end_ns) {
      change(between(random, 2, 30) * period, period * slow);
      change(between(random, 2, 30) * period, period);
    }
  } else if (kind == 5) {
    while (now < end_ns) change(period, period * between(random, 0.6, 1.6));
  }
  return speed;
}

Drawn draw(base::Random& random, PolicyKind policy) {
  Drawn drawn;
  WorldModel& model = drawn.model;
  model.options.policy = policy;
  model.options.any_order = policy != PolicyKind::kInterleave || random.below(3) == 0;
  model.options.steps_each = 20 + random.below(100);
  model.options.here_max = 4 + static_cast<uint32_t>(random.below(5));
  model.options.kept_max = 2 + static_cast<uint32_t>(random.below(100));
  model.steps = model.options.steps_each * 3;
  const double end_ns = static_cast<double>(model.steps) * kA;
  model.host = drawn_speed(random, kA, end_ns, drawn.text);
  model.consumer = drawn_speed(random, between(random, 0.1, 1.5) * kA, end_ns, drawn.text);
  for (uint64_t servers = 1 + random.below(3); servers > 0; --servers) {
    ServerModel server;
    server.speed = drawn_speed(random, between(random, 0.5, 12) * kA, end_ns, drawn.text);
    if (random.below(2) == 0) server.transfer_ns = between(random, 0.01, 3) * kA;
    double now = 0;
    for (uint64_t deaths = random.below(3) * random.below(2); deaths > 0; --deaths) {
      now += between(random, 0.02, 1) * end_ns / 2;
      server.changes_ns.push_back(now);
      now += between(random, 0.001, 1) * end_ns / 4;
      server.changes_ns.push_back(now);
    }
    if (random.below(4) == 0) server.failing = between(random, 0.01, 1);
    drawn.text +=
        fmt::format("sending {:.2f}, failing {:.2f}, {} deaths; ", server.transfer_ns / kA,
                    server.failing, server.changes_ns.size() / 2);
    model.servers.push_back(server);
  }
  return drawn;
}

// By how many steps of the host or of the consumer, whichever are fewer, a run ended after another.
double steps_longer(const WorldModel& model, double than_ns, double end_ns) {
  if (end_ns <= than_ns) return 0;
  return std::min(model.host.work(than_ns, end_ns), model.consumer.work(than_ns, end_ns));
}

// The shortest possible time: host and servers prepare without a break, and the consumer never
// waits.
double bound_ns(const WorldModel& model, double high_ns) {
  const auto steps = static_cast<double>(model.steps);
  double low_ns = 0;
  while (high_ns - low_ns > 1e3) {
    const double middle_ns = (low_ns + high_ns) / 2;
    double work = model.host.work(0, middle_ns);
    for (const ServerModel& server : model.servers) work += server.speed.work(0, middle_ns);
    (work < steps ? low_ns : high_ns) = middle_ns;
  }
  return std::max(high_ns, model.consumer.end_ns(0, steps));
}

double run(sim::Simulator& simulator, const WorldModel& model) {
  PolicyWorld world(simulator, model);
  world.run();
  EXPECT_EQ(world.problem(), "");
  return world.end_ns();
}

// A run may take longer than the host alone: by a few steps, which are rescued or wasted until the
// rates are known, and by `share` of all steps. The difference is counted in steps instead of time,
// because a single step takes long in a world that becomes slow at its end.
void run_patterns(PolicyKind policy, double share, bool is_host_short = false) {
  constexpr double kFewSteps = 4;
  double of_alone = 0;
  double of_bound = 0;
  double most = 0;
  double count = 0;
  sim::for_each_seed(700, [&](sim::Simulator& simulator) {
    Drawn drawn = draw(simulator.random(), policy);
    drawn.model.is_host_short = is_host_short;
    const auto steps = static_cast<double>(drawn.model.steps);
    WorldModel alone = drawn.model;
    alone.servers.clear();
    sim::Simulator other(1);
    const double alone_ns = run(other, alone);
    const double end_ns = run(simulator, drawn.model);
    const double longer = steps_longer(drawn.model, alone_ns, end_ns);
    EXPECT_LE(longer, share * steps + kFewSteps) << drawn.text;
    most = std::max(most, (longer - kFewSteps) / steps);
    of_alone += end_ns / alone_ns;
    of_bound += end_ns / bound_ns(drawn.model, alone_ns);
    ++count;
  });
  fmt::print(
      "mean time: {:.3f} of the host alone, {:.3f} of the bound; {:.3f} of the steps longer\n",
      of_alone / count, of_bound / count, most);
}

TEST(Patterns, InterleaveIsHardlyEverSlowerThanTheHostAlone) {
  run_patterns(PolicyKind::kInterleave, 0.03);
}

// A host that leaves to prep servers each step that they can make in time learns late that they
// have become slow.
TEST(Patterns, ARestingHostIsHardlyEverSlowerThanAlone) {
  run_patterns(PolicyKind::kInterleave, 0.1, true);
}

TEST(Patterns, WrrIsHardlyEverSlowerThanTheHostAlone) { run_patterns(PolicyKind::kWrr, 0.03); }

// MTE fixes the parts and the order for an epoch, so it is sometimes slower: a host that becomes
// much faster meanwhile can only help with the steps that the consumer gets next, and a server that
// goes down loses its kept steps.
TEST(Patterns, MteIsNeverMuchSlowerThanTheHostAlone) { run_patterns(PolicyKind::kMte, 0.35); }

}  // namespace
}  // namespace forebay::prep
