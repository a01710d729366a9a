// Many training processes in one simulated world, each with a machine of its own and without a word
// to the others, on prep servers that they share.
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
  double from_ns = 0;  // the time that is measured
  double until_ns = 0;
};

// What happened in the time that is measured.
struct FleetCounts {
  struct Trainer {
    uint64_t given = 0;                  // steps
    std::vector<uint64_t> from_servers;  // of these, by the place in TrainerModel::servers
    uint64_t events = 0;                 // see WorldCounts
    uint64_t messages = 0;
    uint64_t forgotten = 0;

    uint64_t from_all_servers() const;
  };
  std::vector<Trainer> trainers;
  std::vector<uint64_t> prepared;  // steps by each server, with those that were forgotten meanwhile
};

class PolicyFleet {
 public:
  // Makes what decides for a trainer.
  using Make = std::function<std::unique_ptr<Policy>(const PolicyOptions& options, size_t trainer)>;

  PolicyFleet(sim::Simulator& simulator, FleetModel model, const Make& make = nullptr);
  void run();

  const FleetCounts& counts() const { return counts_; }
  const PolicyWorld& trainer(size_t number) const { return *worlds_[number]; }
  const Processors& processors(size_t server) const { return *processors_[server]; }
  // Steps that a trainer's host can make in the time that is measured, and steps that its part of
  // its prep servers can, if every server is shared equally among its trainers and never down.
  double host_part(size_t trainer) const;
  double servers_part(size_t trainer) const;
  // What broke a rule first; empty: nothing.
  std::string problem() const;

 private:
  FleetCounts count() const;

  sim::Simulator& sim_;
  const FleetModel model_;
  std::vector<std::shared_ptr<Processors>> processors_;
  std::vector<uint32_t> users_;  // of each server
  std::vector<std::unique_ptr<PolicyWorld>> worlds_;
  FleetCounts counts_;
  std::string problem_;
};

// Draws `each` different servers for each of so many trainers, so that the numbers of trainers of
// two servers differ by one at most.
std::vector<std::vector<uint32_t>> draw_servers(base::Random& random, size_t trainers,
                                                size_t servers, size_t each);

// Steps of a period that changes by up to `noise` of it in a drawn way, until `end_ns`.
Speed draw_speed(base::Random& random, double period_ns, double noise, double end_ns);

// By how much the number that is furthest from the mean of all differs from it, in parts of it.
double worst_of_mean(const std::vector<double>& numbers);

}  // namespace forebay::prep
