// Many training processes in one simulated world, each with a machine of its own and without a word
// to the others, on near sides that they share.
#pragma once

#include <functional>

#include "plan/testing/prong_world.h"

namespace forebay::plan {

struct TrainerModel {
  Speed host{1e6};
  Speed consumer{1e6};
  std::vector<uint32_t> sides = {};  // the near sides that it uses
  double start_ns = 0;
};

struct FleetModel {
  std::vector<TrainerModel> trainers = {};
  std::vector<SideModel> sides = {};
  double from_ns = 0;  // the time that is measured
  double until_ns = 0;
};

// What happened in the time that is measured.
struct FleetCounts {
  struct Trainer {
    uint64_t given = 0;                // steps
    std::vector<uint64_t> from_sides;  // of these, by the place in TrainerModel::sides
    uint64_t events = 0;               // see WorldCounts
    uint64_t messages = 0;
    uint64_t forgotten = 0;

    uint64_t from_all_sides() const;
  };
  std::vector<Trainer> trainers;
  std::vector<uint64_t> prepared;  // steps by each side, with those that were forgotten meanwhile
};

class ProngFleet {
 public:
  // Makes what decides for a trainer.
  using Make = std::function<std::unique_ptr<Prongs>(const ProngOptions& options, size_t trainer)>;

  ProngFleet(sim::Simulator& simulator, FleetModel model, const Make& make = nullptr);
  void run();

  const FleetCounts& counts() const { return counts_; }
  const ProngWorld& trainer(size_t number) const { return *worlds_[number]; }
  const Processors& processors(size_t side) const { return *processors_[side]; }
  // Steps that a trainer's host can make in the time that is measured, and steps that its part of
  // its near sides can, if every side is shared equally among its trainers and never down.
  double host_part(size_t trainer) const;
  double sides_part(size_t trainer) const;
  // What broke a rule first; empty: nothing.
  std::string problem() const;

 private:
  FleetCounts count() const;

  sim::Simulator& sim_;
  const FleetModel model_;
  std::vector<std::shared_ptr<Processors>> processors_;
  std::vector<uint32_t> users_;  // of each side
  std::vector<std::unique_ptr<ProngWorld>> worlds_;
  FleetCounts counts_;
  std::string problem_;
};

// Draws `each` different sides for each of so many trainers, so that the numbers of trainers of two
// sides differ by one at most.
std::vector<std::vector<uint32_t>> draw_sides(base::Random& random, size_t trainers, size_t sides,
                                              size_t each);

// Steps of a period that changes by up to `noise` of it in a drawn way, until `end_ns`.
Speed draw_speed(base::Random& random, double period_ns, double noise, double end_ns);

// By how much the number that is furthest from the mean of all differs from it, in parts of it.
double worst_of_mean(const std::vector<double>& numbers);

}  // namespace forebay::plan
