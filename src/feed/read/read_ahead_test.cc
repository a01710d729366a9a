// The logic of reading ahead under simulated readers and users, who finish reads and release loads
// in drawn orders. Some plans have slices, whose reads are named late and whose bytes are
// estimates.
#include "feed/read/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "sim/simulator.h"

namespace forebay::feed {
namespace {

constexpr uint64_t kEpochs = 3;

// Epochs whose loads are in lanes, one load of each lane in use at a time, like those of a real
// order.
struct Model {
  explicit Model(sim::Simulator& simulator) : sim(simulator) {
    lanes = 1 + sim.random().below(4);
    has_slices = sim.random().below(2) == 0;
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) add_plan(epoch);
    limits.reads = static_cast<uint32_t>(1 + sim.random().below(5));
    limits.read_bytes = 1 + sim.random().below(300);
    limits.unnamed = static_cast<uint32_t>(1 + sim.random().below(4));
    limits.urgent_end = sim.random().below(8);
    limits.beside_urgent = static_cast<uint32_t>(1 + sim.random().below(3));
    limits.memory_bytes = needed + sim.random().below(2 * needed);
    ahead.emplace(limits);
  }

  void add_plan(uint64_t epoch) {
    auto plan = std::make_shared<EpochPlan>();
    plan->epoch = epoch;
    plan->has_slices = has_slices;
    const size_t count = sim.random().below(20);
    std::vector<uint64_t> in_lane(lanes);
    for (size_t i = 0; i < count; ++i) {
      plan->loads.push_back({.group = i,
                             .lane = static_cast<uint32_t>(i % lanes),
                             .first_position = i,
                             .uses = 1,
                             .bytes = 1 + sim.random().below(100),
                             .is_slice = has_slices && sim.random().below(4) != 0});
      const uint64_t bytes = plan->loads.back().bytes;
      true_bytes[{epoch, i}] =
          plan->loads.back().is_slice ? 1 + sim.random().below(3 * bytes) : bytes;
      in_lane[i % lanes] = plan->loads.back().bytes;
      needed = std::max(needed, std::accumulate(in_lane.begin(), in_lane.end(), uint64_t{0}));
    }
    plans.push_back(plan);
  }

  const Load& load_of(const LoadId& id) const { return plans[id.plan]->loads[id.number]; }

  // Does what the reading stage does after each event.
  void start_what_fits() {
    while (true) {
      if (const auto read = ahead->next_read()) {
        start(*read);
      } else if (const auto load = ahead->next_load()) {
        begin(*load);
      } else if (ahead->wants_plan() && next_plan < plans.size()) {
        ahead->add(plans[next_plan++]);
      } else {
        return;
      }
    }
  }

  void begin(const LoadId& load) {
    ASSERT_TRUE(started.empty() || started.back() < load) << "out of order";
    const bool may_exceed = has_slices && in_memory[load.number % lanes] == 0;
    ASSERT_TRUE(may_exceed || ahead->memory_bytes() <= limits.memory_bytes);
    ++in_memory[load.number % lanes];
    started.push_back(load);
    ++unnamed;
    ASSERT_LE(unnamed, limits.unnamed);
    if (!load_of(load).is_slice) return name_reads(load);
    sim.within(500, [this, load] {
      name_reads(load);
      start_what_fits();
      use_what_is_there();
    });
  }

  void name_reads(const LoadId& load) {
    --unnamed;
    std::deque<PieceRead> reads;
    for (uint64_t left = sim.random().below(4) == 0 ? 0 : true_bytes[load]; left > 0;) {
      const uint64_t bytes = 1 + sim.random().below(left);
      reads.push_back({.load = load, .stretch = reads.size(), .offset = 0, .bytes = bytes});
      left -= bytes;
    }
    const bool any = load_of(load).is_slice ? ahead->begin(load, std::move(reads),
                                                           load_of(load).bytes, true_bytes[load])
                                            : ahead->begin(load, std::move(reads));
    if (!any) loaded.insert(load);
  }

  void start(const PieceRead& read) {
    ++in_flight;
    in_flight_bytes += read.bytes;
    ASSERT_LE(in_flight, limits.reads);
    if (in_flight > 1) {
      ASSERT_LE(in_flight_bytes, limits.read_bytes);
    }
    ASSERT_TRUE(has_slices || read.load == started.back())
        << "an earlier load's read came after a later load's";
    sim.within(1000, [this, read] {
      --in_flight;
      in_flight_bytes -= read.bytes;
      if (ahead->finish(read)) loaded.insert(read.load);
      start_what_fits();
      use_what_is_there();
    });
  }

  // A user takes the loads in the order of their positions, as long as the next load is in memory
  // and its lane is free, and releases each load at a drawn moment.
  void use_what_is_there() {
    while (next_use < uses.size() && loaded.contains(uses[next_use]) &&
           !in_use.contains(uses[next_use].number % lanes)) {
      const LoadId load = uses[next_use++];
      in_use.insert(load.number % lanes);
      sim.within(3000, [this, load] {
        in_use.erase(load.number % lanes);
        ahead->drop(load_of(load).lane, true_bytes[load]);
        --in_memory[load.number % lanes];
        start_what_fits();
        use_what_is_there();
      });
    }
  }

  sim::Simulator& sim;
  uint64_t lanes = 1;
  bool has_slices = false;
  std::map<LoadId, uint64_t> true_bytes;
  std::map<uint64_t, int> in_memory;  // loads, by lane
  uint32_t unnamed = 0;
  uint64_t needed = 1;
  ReadAheadLimits limits;
  std::vector<std::shared_ptr<const EpochPlan>> plans;
  std::optional<ReadAhead> ahead;
  size_t next_plan = 0;
  std::vector<LoadId> started;
  std::set<LoadId> loaded;
  std::vector<LoadId> uses;
  size_t next_use = 0;
  std::set<uint64_t> in_use;  // lanes
  uint32_t in_flight = 0;
  uint64_t in_flight_bytes = 0;
};

TEST(ReadAhead, EveryLoadIsReadInOrderWithinTheMemoryHoweverUsesEnd) {
  sim::for_each_seed(500, [](sim::Simulator& simulator) {
    Model model(simulator);
    for (const auto& plan : model.plans) {
      for (size_t i = 0; i < plan->loads.size(); ++i) model.uses.push_back({plan->epoch, i});
    }
    model.start_what_fits();
    model.use_what_is_there();
    ASSERT_TRUE(simulator.run(10'000).ok());
    EXPECT_EQ(model.next_use, model.uses.size()) << "a load was never read";
    EXPECT_EQ(model.started, model.uses);
    EXPECT_EQ(model.ahead->memory_bytes(), 0u);
    EXPECT_EQ(model.in_flight, 0u);
  });
}

TEST(ReadAhead, ALargeReadMayBeInFlightAlone) {
  auto plan = std::make_shared<EpochPlan>();
  plan->loads = {{.uses = 1, .bytes = 100}};
  ReadAhead ahead({.memory_bytes = 100, .reads = 4, .read_bytes = 10});
  ahead.add(plan);
  const LoadId load = ahead.next_load().value();
  EXPECT_TRUE(ahead.begin(load, {{.load = load, .bytes = 60}, {.load = load, .bytes = 40}}));
  const PieceRead first = ahead.next_read().value();
  EXPECT_EQ(first.bytes, 60u);
  EXPECT_FALSE(ahead.next_read());
  EXPECT_FALSE(ahead.finish(first));
  const PieceRead second = ahead.next_read().value();
  EXPECT_TRUE(ahead.finish(second));
  EXPECT_TRUE(ahead.wants_plan());
}

TEST(ReadAhead, WhatTheFirstBatchNeedsComesBeforeWhatIsReadAhead) {
  auto plan = std::make_shared<EpochPlan>();
  for (uint64_t i = 0; i < 8; ++i) plan->loads.push_back({.first_position = i, .uses = 1});
  ReadAhead ahead({.memory_bytes = 100, .reads = 5, .urgent_end = 3, .beside_urgent = 2});
  ahead.add(plan);
  std::deque<PieceRead> flying;
  const auto start_all = [&] {
    while (true) {
      if (const auto read = ahead.next_read()) {
        flying.push_back(*read);
      } else if (const auto load = ahead.next_load()) {
        EXPECT_TRUE(ahead.begin(*load, {{.load = *load, .bytes = 1}}));
      } else {
        return flying.size();
      }
    }
  };
  const auto finish = [&](size_t at) {
    EXPECT_TRUE(ahead.finish(flying[at]));
    flying.erase(flying.begin() + static_cast<ptrdiff_t>(at));
  };
  EXPECT_EQ(start_all(), 3u);  // the three that are urgent
  finish(0);
  EXPECT_EQ(start_all(), 2u);
  finish(0);
  EXPECT_EQ(start_all(), 2u);  // the last urgent one, and one more
  EXPECT_EQ(flying[1].load.number, 3u);
  finish(0);
  EXPECT_EQ(start_all(), 5u);  // nothing is urgent any more
}

}  // namespace
}  // namespace forebay::feed
