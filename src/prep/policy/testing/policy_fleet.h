// Many training processes in one simulator that share prep servers. Each process has its own
// machine and policy, and does not communicate with the others.
#pragma once

#include <functional>

#include "prep/policy/testing/policy_world.h"

namespace forebay::prep {

struct TrainerModel {
  Speed host{1e6};
  Speed consumer{1e6};
  std::vector<uint32_t> servers = {};  // the prep servers that it uses
  double start_ns = 0;
};

struct FleetModel {
  std::vector<TrainerModel> trainers = {};
  std::vector<ServerModel> servers = {};
  double from_ns = 0;  // the measured time begins
  double until_ns = 0;
};

// What happened in the measured time.
struct FleetCounts {
  struct Trainer {
    uint64_t given = 0;                  // steps
    std::vector<uint64_t> from_servers;  // of these, by the index in TrainerModel::servers
    uint64_t events = 0;                 // see WorldCounts
    uint64_t messages = 0;
    uint64_t forgotten = 0;

    uint64_t from_all_servers() const;
  };
  std::vector<Trainer> trainers;
  std::vector<uint64_t> prepared;  // steps of each server, including those forgotten meanwhile
};

class PolicyFleet {
 public:
  // Makes a trainer's policy.
  using Make = std::function<std::unique_ptr<Policy>(const PolicyOptions& options, size_t trainer)>;

  PolicyFleet(sim::Simulator& simulator, FleetModel model, const Make& make = nullptr);
  void run();

  const FleetCounts& counts() const { return counts_; }
  const PolicyWorld& trainer(size_t number) const { return *worlds_[number]; }
  const Processors& processors(size_t server) const { return *processors_[server]; }
  // Steps that a trainer's host can make in the measured time, and steps that its prep servers can
  // make for it if each of them is shared equally among its trainers and never down.
  double host_part(size_t trainer) const;
  double servers_part(size_t trainer) const;
  // The first broken rule; empty: none was broken.
  std::string problem() const;

 private:
  FleetCounts count() const;

  sim::Simulator& sim_;
  const FleetModel model_;
  std::vector<std::shared_ptr<Processors>> processors_;
  std::vector<uint32_t> users_;  // trainers of each server
  std::vector<std::unique_ptr<PolicyWorld>> worlds_;
  FleetCounts counts_;
  std::string problem_;
};

// Draws `each` different servers for every trainer, so that the numbers of trainers of any two
// servers differ by one at most.
std::vector<std::vector<uint32_t>> draw_servers(base::Random& random, size_t trainers,
                                                size_t servers, size_t each);

// A speed whose period changes randomly, by up to `noise` times `period_ns`, until `end_ns`.
Speed draw_speed(base::Random& random, double period_ns, double noise, double end_ns);

// The largest difference of a number from the mean of all, relative to the mean.
double worst_of_mean(const std::vector<double>& numbers);

}  // namespace forebay::prep
