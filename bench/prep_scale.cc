// deps: forebay_prep_policy_testing nlohmann_json::nlohmann_json
// Many training processes that share many prep servers, in a simulator without a network:
//    bench_prep_scale
// Times are virtual, except CPU time. All periods change by up to 20 % all the time, and in the
// case "uneven" each maker's usual period is drawn, too. fairness_worst: a trainer's steps from
// prep servers over its equal share, as the largest difference from the mean; of_bound: the steps
// that a trainer's host and its share of the prep servers could make, over the steps that it got;
// used: all steps from prep servers over the steps that these could make; messages: for each step
// of a prep server; us_per_event and machine_bytes: CPU time and memory of one trainer's policy;
// orders_most: most orders that a prep server had from one trainer at once.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>

#include "lib/clock.h"
#include "lib/machine.h"
#include "prep/policy/testing/policy_fleet.h"

namespace {

int64_t allocated_bytes = 0;

}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  allocated_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  allocated_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t /*bytes*/) noexcept {
  operator delete(memory);
}

namespace {

using namespace forebay;
using namespace forebay::prep;

constexpr double kA = 1e6;  // a host's period in nanoseconds

struct Cost {
  double events = 0;
  double seconds = 0;
  int64_t bytes = 0;
};

// Measures the CPU time and the memory of a policy.
class Measured final : public Policy {
 public:
  Measured(const PolicyOptions& options, Cost& cost) : cost_(cost) {
    const int64_t before = allocated_bytes;
    inner_ = Policy::make(options);
    cost_.bytes += allocated_bytes - before;
  }
  std::vector<PolicyAction> step(const PolicyEvent& event) override {
    const int64_t before = allocated_bytes;
    const double start = bench::thread_seconds();
    auto actions = inner_->step(event);
    cost_.seconds += bench::thread_seconds() - start;
    ++cost_.events;
    cost_.bytes += allocated_bytes - before;
    cost_.bytes -= static_cast<int64_t>(malloc_usable_size(actions.data()));
    return actions;
  }
  int64_t wake_ns() const override { return inner_->wake_ns(); }
  StepNumber position() const override { return inner_->position(); }
  std::vector<StepNumber> over() const override { return inner_->over(); }
  PolicyShare host() const override { return inner_->host(); }
  PolicyShare server(uint32_t number) const override { return inner_->server(number); }

 private:
  std::unique_ptr<Policy> inner_;
  Cost& cost_;
};

struct Case {
  const char* name = "";
  size_t trainers = 64;
  size_t servers = 1000;
  size_t each = 16;    // prep servers of a trainer
  double b = 4;        // a prep server's period over a host's
  double steps = 100;  // of a trainer at each of its prep servers
  double uneven = 1;   // rates differ by up to so many times
};

FleetModel model_of(base::Random& random, const Case& what) {
  const double users =
      static_cast<double>(what.trainers * what.each) / static_cast<double>(what.servers);
  const double round_ns = users * what.b * kA;
  FleetModel model;
  model.from_ns = 20 * round_ns;
  model.until_ns = model.from_ns + what.steps * round_ns;
  const auto draw = [&](double period) {
    const double usual = period * std::pow(what.uneven, random.uniform() - 0.5);
    return draw_speed(random, usual * kA, 0.2, model.until_ns);
  };
  for (size_t i = 0; i < what.servers; ++i) {
    model.servers.push_back({.speed = draw(what.b), .transfer_ns = 0.02 * kA});
  }
  for (const auto& servers : draw_servers(random, what.trainers, what.servers, what.each)) {
    model.trainers.push_back({.host = draw(1), .consumer = draw(0.1), .servers = servers});
    model.trainers.back().start_ns = 10 * kA * random.uniform();
  }
  return model;
}

nlohmann::json run(const Case& what) {
  sim::Simulator simulator(1);
  Cost cost;
  PolicyFleet fleet(simulator, model_of(simulator.random(), what),
                    [&](const PolicyOptions& options, size_t trainer) -> std::unique_ptr<Policy> {
                      if (trainer > 0) return Policy::make(options);
                      return std::make_unique<Measured>(options, cost);
                    });
  fleet.run();
  FOREBAY_CHECK(fleet.problem().empty());
  std::vector<double> parts;
  std::vector<double> of_bound;
  double given = 0, events = 0, messages = 0, from_servers = 0, servers_part = 0;
  size_t orders_most = 0;
  for (size_t i = 0; i < what.trainers; ++i) {
    const FleetCounts::Trainer& trainer = fleet.counts().trainers[i];
    const auto got = static_cast<double>(trainer.from_all_servers());
    parts.push_back(got / fleet.servers_part(i));
    of_bound.push_back((fleet.host_part(i) + fleet.servers_part(i)) /
                       static_cast<double>(trainer.given));
    given += static_cast<double>(trainer.given);
    events += static_cast<double>(trainer.events);
    messages += static_cast<double>(trainer.messages);
    from_servers += got;
    servers_part += fleet.servers_part(i);
    orders_most = std::max(orders_most, fleet.trainer(i).counts().orders_most);
  }
  std::ranges::sort(of_bound);
  return {{"name", what.name},
          {"trainers", what.trainers},
          {"servers", what.servers},
          {"each", what.each},
          {"fairness_worst", worst_of_mean(parts)},
          {"of_bound", {{"median", of_bound[of_bound.size() / 2]}, {"worst", of_bound.back()}}},
          {"used", from_servers / servers_part},
          {"events_per_step", events / given},
          {"messages", messages / from_servers},
          {"us_per_event", cost.seconds * 1e6 / cost.events},
          {"machine_bytes", cost.bytes},
          {"orders_most", orders_most}};
}

}  // namespace

int main() {
  nlohmann::json out{{"machine", bench::machine()}};
  fmt::print("{:<8} {:>8} {:>6} {:>5} {:>8} {:>9} {:>6} {:>6} {:>7} {:>9} {:>6} {:>8}\n", "case",
             "trainers", "servers", "each", "fairness", "of_bound", "worst", "used", "events",
             "messages", "us", "bytes");
  const Case cases[] = {
      {.name = "alone", .trainers = 1, .servers = 16},
      {.name = "few", .trainers = 8, .servers = 125},
      {.name = "many", .trainers = 64, .servers = 1000},
      {.name = "shared", .each = 125, .steps = 20},
      {.name = "crowded", .servers = 4, .each = 4, .b = 0.25, .steps = 400},
      {.name = "uneven", .servers = 4, .each = 4, .b = 0.25, .steps = 400, .uneven = 2}};
  for (const Case& what : cases) {
    const nlohmann::json row = run(what);
    fmt::print(
        "{:<8} {:>8} {:>6} {:>5} {:>8.4f} {:>9.4f} {:>6.3f} {:>6.3f} {:>7.3f} {:>9.3f} {:>6.2f} "
        "{:>8}\n",
        what.name, what.trainers, what.servers, what.each, row["fairness_worst"].get<double>(),
        row["of_bound"]["median"].get<double>(), row["of_bound"]["worst"].get<double>(),
        row["used"].get<double>(), row["events_per_step"].get<double>(),
        row["messages"].get<double>(), row["us_per_event"].get<double>(),
        row["machine_bytes"].get<int64_t>());
    std::fflush(stdout);
    out["cases"].push_back(row);
  }
  fmt::print("{}\n", out.dump());
  return 0;
}
