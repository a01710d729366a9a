// deps: forebay_prep_policy_testing nlohmann_json::nlohmann_json
// DDLP's example in a simulator: a host, a prep server and a consumer with steady rates.
//    bench_prep_pacing HOST_SECONDS SERVER_SECONDS CONSUMER_SECONDS
// The arguments are seconds for a batch; sending a batch takes a twentieth of the host's. gain: how
// much faster than the host alone; of_bound: an epoch's time over the shortest possible time;
// of_form: over the closed form of MTE.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "prep/policy/testing/policy_world.h"

namespace {

using namespace forebay::prep;

constexpr uint64_t kSteps = 2000;  // of an epoch
constexpr uint64_t kEpochs = 3;    // the last one counts

struct Pace {
  double host = 0;
  double near = 0;
  double consumer = 0;
  double sending() const { return host / 20; }
};

// The seconds of an epoch.
double epoch_seconds(const Pace& pace, PolicyKind policy) {
  forebay::sim::Simulator simulator(1);
  WorldModel model;
  model.options.policy = policy;
  model.options.any_order = policy != PolicyKind::kInterleave;
  model.options.steps_each = kSteps;
  model.options.kept_max = kSteps;
  model.steps = kSteps * kEpochs;
  model.host = Speed(pace.host * 1e9);
  model.consumer = Speed(pace.consumer * 1e9);
  model.servers = {{.speed = Speed(pace.near * 1e9), .transfer_ns = pace.sending() * 1e9}};
  PolicyWorld world(simulator, model);
  world.run();
  FOREBAY_CHECK(world.problem().empty());
  const auto& given = world.given_ns();
  return (given.back() - given[given.size() - 1 - kSteps]) / 1e9;
}

// The time of MTE's closed form, in which a step of the prep server's part takes `drained`.
double form_seconds(const Pace& pace) {
  const double drained = std::max(pace.consumer, pace.sending());
  const double part = pace.consumer < pace.host
                          ? std::floor(kSteps * pace.host / (pace.host + pace.near - drained))
                          : 0;
  return (kSteps - part) * std::max(pace.host, pace.consumer) + part * drained;
}

}  // namespace

int main(int count, char** words) {
  Pace pace;
  if (count == 4) pace = {std::atof(words[1]), std::atof(words[2]), std::atof(words[3])};
  if (!(pace.host > 0 && pace.near > 0 && pace.consumer > 0)) {
    fmt::print(stderr, "usage: bench_prep_pacing HOST_SECONDS SERVER_SECONDS CONSUMER_SECONDS\n");
    return 2;
  }
  const double alone = kSteps * std::max(pace.host, pace.consumer);
  const double bound = kSteps * std::max(1 / (1 / pace.host + 1 / pace.near), pace.consumer);
  nlohmann::json out;
  for (const auto& [name, policy] :
       {std::pair("ours", PolicyKind::kInterleave), std::pair("mte", PolicyKind::kMte),
        std::pair("wrr", PolicyKind::kWrr)}) {
    const double seconds = epoch_seconds(pace, policy);
    out[name] = {{"gain", alone / seconds - 1}, {"of_bound", seconds / bound}};
    if (policy == PolicyKind::kMte) out[name]["of_form"] = seconds / form_seconds(pace);
  }
  fmt::print("{}\n", out.dump());
  return 0;
}
