#include "prep/policy/testing/policy_fleet.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace forebay::prep {

namespace {

constexpr uint64_t kEvents = 200'000'000;
constexpr uint32_t kHereEach = 4;  // the same as in prep/host/assisted_feed.cc

FleetCounts minus(FleetCounts all, const FleetCounts& before) {
  for (size_t i = 0; i < all.trainers.size(); ++i) {
    FleetCounts::Trainer& trainer = all.trainers[i];
    const FleetCounts::Trainer& old = before.trainers[i];
    trainer.given -= old.given;
    trainer.events -= old.events;
    trainer.messages -= old.messages;
    trainer.forgotten -= old.forgotten;
    for (size_t k = 0; k < trainer.from_servers.size(); ++k) {
      trainer.from_servers[k] -= old.from_servers[k];
    }
  }
  for (size_t i = 0; i < all.prepared.size(); ++i) all.prepared[i] -= before.prepared[i];
  return all;
}

}  // namespace

uint64_t FleetCounts::Trainer::from_all_servers() const {
  return std::accumulate(from_servers.begin(), from_servers.end(), uint64_t{0});
}

PolicyFleet::PolicyFleet(sim::Simulator& simulator, FleetModel model, const Make& make)
    : sim_(simulator), model_(std::move(model)), users_(model_.servers.size()) {
  for (const ServerModel& server : model_.servers) {
    processors_.push_back(std::make_shared<Processors>(simulator, server.speed));
  }
  for (const TrainerModel& trainer : model_.trainers) {
    WorldModel world;
    world.steps = UINT64_MAX;
    world.is_cut = true;
    world.options.steps_each = 1000;
    world.options.servers = static_cast<uint32_t>(trainer.servers.size());
    world.options.here_max = kHereEach * world.options.servers;
    world.host = trainer.host;
    world.consumer = trainer.consumer;
    world.start_ns = trainer.start_ns;
    for (const uint32_t server : trainer.servers) {
      world.servers.push_back(model_.servers[server]);
      world.servers.back().processors = processors_[server];
      ++users_[server];
    }
    auto policy = make ? make(world.options, worlds_.size()) : nullptr;
    worlds_.push_back(std::make_unique<PolicyWorld>(simulator, world, std::move(policy)));
  }
}

void PolicyFleet::run() {
  for (const auto& world : worlds_) world->begin();
  FleetCounts before;
  sim_.after(static_cast<int64_t>(model_.from_ns), [&] { before = count(); });
  sim_.after(static_cast<int64_t>(model_.until_ns), [&] {
    counts_ = minus(count(), before);
    for (const auto& world : worlds_) world->stop();
  });
  const base::Status status = sim_.run(kEvents);
  if (!status.ok()) problem_ = status.message();
}

FleetCounts PolicyFleet::count() const {
  FleetCounts counts;
  for (const auto& world : worlds_) {
    FleetCounts::Trainer& trainer = counts.trainers.emplace_back();
    trainer.given = world->given().size();
    trainer.events = world->counts().events;
    trainer.messages = world->counts().messages;
    trainer.forgotten = world->counts().forgotten;
    const size_t servers = model_.trainers[counts.trainers.size() - 1].servers.size();
    for (uint32_t server = 0; server < servers; ++server) {
      trainer.from_servers.push_back(world->policy().server(server).steps);
    }
  }
  for (const auto& server : processors_) counts.prepared.push_back(server->finished());
  return counts;
}

double PolicyFleet::host_part(size_t trainer) const {
  return model_.trainers[trainer].host.work(model_.from_ns, model_.until_ns);
}

double PolicyFleet::servers_part(size_t trainer) const {
  double part = 0;
  for (const uint32_t server : model_.trainers[trainer].servers) {
    part += model_.servers[server].speed.work(model_.from_ns, model_.until_ns) / users_[server];
  }
  return part;
}

std::string PolicyFleet::problem() const {
  for (size_t i = 0; i < worlds_.size(); ++i) {
    const std::string& problem = worlds_[i]->problem();
    if (!problem.empty()) return fmt::format("trainer {}: {}", i, problem);
  }
  return problem_;
}

std::vector<std::vector<uint32_t>> draw_servers(base::Random& random, size_t trainers,
                                                size_t servers, size_t each) {
  std::vector<std::vector<uint32_t>> drawn;
  std::vector<uint32_t> users(servers);
  std::vector<uint32_t> order(servers);
  std::iota(order.begin(), order.end(), 0);
  for (size_t trainer = 0; trainer < trainers; ++trainer) {
    base::shuffle(std::span(order), random);
    std::vector<std::array<uint32_t, 3>> least_used;  // trainers, place in the order, server
    for (uint32_t i = 0; i < servers; ++i) least_used.push_back({users[order[i]], i, order[i]});
    std::ranges::sort(least_used);
    std::vector<uint32_t>& own = drawn.emplace_back();
    for (size_t i = 0; i < each; ++i) own.push_back(least_used[i][2]);
    for (const uint32_t server : own) ++users[server];
  }
  return drawn;
}

Speed draw_speed(base::Random& random, double period_ns, double noise, double end_ns) {
  Speed speed(period_ns);
  for (double now_ns = 0; noise > 0 && now_ns < end_ns; now_ns += period_ns) {
    speed.change(now_ns, period_ns * (1 + noise * (2 * random.uniform() - 1)));
  }
  return speed;
}

double worst_of_mean(const std::vector<double>& numbers) {
  const double mean =
      std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
  double worst = 0;
  for (const double number : numbers) worst = std::max(worst, std::abs(number / mean - 1));
  return worst;
}

}  // namespace forebay::prep
