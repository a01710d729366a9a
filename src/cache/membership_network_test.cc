// Many machines under lost datagrams, cut networks and failures of every kind. Times are those of
// the simulator. A failed test names its seed.
#include "cache/testing/membership_network.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

namespace forebay::cache {
namespace {

using sim::for_each_seed;
using sim::Simulator;

constexpr int64_t kSecond = kSimSecond;
constexpr int64_t kMillisecond = kSimMillisecond;

bool tests_all() { return std::getenv("FOREBAY_TEST_ALL") != nullptr; }

// Each machine's list has exactly the machines that take part, in the same incarnations.
void expect_same_lists(const MembershipNetwork& network) {
  const auto numbers = network.taking_part();
  ASSERT_TRUE(network.agree());
  for (const size_t i : numbers) {
    EXPECT_EQ(network.machines[i].process->members(),
              network.machines[numbers.front()].process->members());
  }
}

// Kills some of the machines at once and returns how long they stay in any list of the others.
double seconds_until_dead_are_gone(MembershipNetwork& network, size_t killed) {
  std::vector<size_t> numbers = network.taking_part();
  base::shuffle(std::span(numbers), network.random());
  for (size_t i = 0; i < killed; ++i) network.kill(numbers[i]);
  const auto taken_ns = network.run_until_agreed(60 * kSecond);
  EXPECT_TRUE(taken_ns.has_value());
  return static_cast<double>(taken_ns.value_or(0)) * 1e-9;
}

uint64_t sent_bytes(const MembershipNetwork& network) {
  uint64_t bytes = 0;
  for (const auto& machine : network.machines) bytes += machine.sent_bytes;
  return bytes;
}

TEST(MembershipNetwork, AKilledMachineIsInNobodysListAfterASecondAndAHalf) {
  for_each_seed(40, [](Simulator& simulator) {
    MembershipNetwork network(simulator);
    network.start(2 + network.random().below(63));
    network.run_for(static_cast<int64_t>(network.random().below(kSecond)));
    EXPECT_LE(seconds_until_dead_are_gone(network, 1), 1.5);
    EXPECT_EQ(network.false_deaths, 0u);
    expect_same_lists(network);
  });
}

TEST(MembershipNetwork, HalfOfTheMachinesMayDieAtOnce) {
  for_each_seed(10, [](Simulator& simulator) {
    MembershipNetwork network(simulator);
    const size_t count = 2 + network.random().below(31);
    network.start(count);
    network.run_for(kSecond);
    EXPECT_LE(seconds_until_dead_are_gone(network, count / 2), 8);
    EXPECT_EQ(network.false_deaths, 0u);
  });
}

TEST(MembershipNetwork, ANewcomerNeedsToKnowOneMember) {
  for_each_seed(20, [](Simulator& simulator) {
    MembershipNetwork network(simulator);
    network.start(1 + network.random().below(100));
    network.run_for(kSecond);
    for (int i = 0; i < 5; ++i) network.join({network.random().below(network.machines.size())});
    const auto taken_ns = network.run_until_agreed(60 * kSecond);
    ASSERT_TRUE(taken_ns.has_value());
    // A machine that missed the news learns it when members are compared.
    EXPECT_LE(*taken_ns, 6 * kSecond);
    EXPECT_EQ(network.false_deaths, 0u);
  });
}

TEST(MembershipNetwork, WhoLeavesIsGoneBeforeItWouldBeFoundDead) {
  for_each_seed(20, [](Simulator& simulator) {
    MembershipNetwork network(simulator);
    network.start(2 + network.random().below(63));
    network.run_for(kSecond);
    network.leave(network.random().below(network.machines.size()));
    const auto taken_ns = network.run_until_agreed(60 * kSecond);
    ASSERT_TRUE(taken_ns.has_value());
    EXPECT_LE(*taken_ns, 300 * kMillisecond);
  });
}

TEST(MembershipNetwork, AnotherProcessOfAMachineTakesOverAtAnotherPort) {
  for_each_seed(20, [](Simulator& simulator) {
    MembershipNetwork network(simulator);
    network.start(3 + network.random().below(30));
    network.run_for(kSecond);
    network.kill(1);
    // Before or after the others have found out that the first process is dead.
    network.run_for(static_cast<int64_t>(network.random().below(3 * kSecond)));
    network.restart(1, {0});
    const auto taken_ns = network.run_until_agreed(60 * kSecond);
    ASSERT_TRUE(taken_ns.has_value());
    EXPECT_LE(*taken_ns, 2 * kSecond);
    network.run_for(5 * kSecond);
    expect_same_lists(network);
    EXPECT_EQ(network.machines[0].list[1].port, network.machines[1].member.port);
  });
}

TEST(MembershipNetwork, OfTwoProcessesWithOneIdOneEnds) {
  for_each_seed(10, [](Simulator& simulator) {
    MembershipNetwork network(simulator);
    network.start(3 + network.random().below(30));
    const size_t second = network.join({});
    network.machines[second].member.id = network.machines[0].member.id;
    network.restart(second, {0, 1});
    network.run_for(10 * kSecond);
    const bool first_ended = network.machines[0].process->is_replaced();
    EXPECT_NE(first_ended, network.machines[second].process->is_replaced());
    const auto& winner = network.machines[first_ended ? second : 0];
    EXPECT_EQ(network.machines[1].process->members()[0], winner.process->self());
  });
}

TEST(MembershipNetwork, AMachineThatWasStoppedDropsNobodyAndComesBack) {
  for_each_seed(20, [](Simulator& simulator) {
    MembershipNetwork network(simulator);
    const size_t count = 2 + network.random().below(40);
    network.start(count);
    network.run_for(kSecond);
    network.stop_for(0, 10 * kSecond);
    network.run_for(10 * kSecond + kMillisecond);
    // The others dropped machine 0, which still has all of them in its list.
    EXPECT_EQ(network.false_deaths, 1u);
    EXPECT_EQ(network.machines[0].list.size(), count);
    const auto taken_ns = network.run_until_agreed(60 * kSecond);
    ASSERT_TRUE(taken_ns.has_value());
    EXPECT_LE(*taken_ns, 5 * kSecond);
    network.run_for(10 * kSecond);
    EXPECT_EQ(network.false_deaths, 1u);
    expect_same_lists(network);
  });
}

TEST(MembershipNetwork, AClockThatJumpsForwardDoesNoHarm) {
  for_each_seed(10, [](Simulator& simulator) {
    MembershipNetwork network(simulator);
    network.start(2 + network.random().below(30));
    for (int i = 0; i < 20; ++i) {
      auto& machine = network.machines[network.random().below(network.machines.size())];
      machine.clock_ahead_ns +=
          static_cast<int64_t>(network.random().below(1000 * static_cast<uint64_t>(kSecond)));
      network.run_for(static_cast<int64_t>(network.random().below(kSecond)));
    }
    EXPECT_TRUE(network.agree());
    EXPECT_EQ(network.false_deaths, 0u);
  });
}

TEST(MembershipNetwork, TwoMachinesThatCannotReachEachOtherStayMembers) {
  for_each_seed(10, [](Simulator& simulator) {
    MembershipNetwork network(simulator);
    network.start(5 + network.random().below(20));
    const bool is_one_way = network.random().below(2) == 0;
    network.may_pass = [=](size_t from, size_t to) {
      return !(from == 0 && to == 1) && (is_one_way || !(from == 1 && to == 0));
    };
    network.run_for(30 * kSecond);
    EXPECT_TRUE(network.agree());
    EXPECT_EQ(network.false_deaths, 0u);
  });
}

// Cuts the first machines off for so long that each part has dropped the other.
void cut_and_heal(MembershipNetwork& network, size_t first, bool is_one_way) {
  network.may_pass = [=](size_t from, size_t to) {
    return (from < first) == (to < first) || (is_one_way && from < first);
  };
  network.run_for(60 * kSecond);
  EXPECT_FALSE(network.agree());
  network.may_pass = [](size_t, size_t) { return true; };
}

TEST(MembershipNetwork, TheHalvesOfACutNetworkFindEachOther) {
  for_each_seed(10, [](Simulator& simulator) {
    MembershipNetwork network(simulator);
    const size_t count = 2 + network.random().below(40);
    network.start(count);
    cut_and_heal(network, 1 + network.random().below(count - 1), network.random().below(2) == 0);
    const auto taken_ns = network.run_until_agreed(120 * kSecond);
    ASSERT_TRUE(taken_ns.has_value());
    EXPECT_LE(*taken_ns, 20 * kSecond);
    network.run_for(10 * kSecond);
    expect_same_lists(network);
  });
}

TEST(MembershipNetwork, FewAreThoughtDeadWhereManyDatagramsAreLost) {
  for_each_seed(3, [](Simulator& simulator) {
    MembershipNetwork network(simulator);
    network.start(32);
    network.weather = {.lost = 0.15, .repeated = 0.05};
    network.run_for(60 * kSecond);
    EXPECT_LE(network.false_deaths, 1u);
    network.weather = {};
    const auto taken_ns = network.run_until_agreed(60 * kSecond);
    ASSERT_TRUE(taken_ns.has_value());
    EXPECT_LE(*taken_ns, 10 * kSecond);
  });
}

// Everything at once: what a job's machines may meet in months happens in half a minute.
class Chaos {
 public:
  explicit Chaos(Simulator& simulator) : network_(simulator) {
    network_.start(1 + below(24));
    network_.weather = {.lost = 0.01 * static_cast<double>(below(21)),
                        .repeated = 0.1,
                        .late = 0.01 * static_cast<double>(below(3)),
                        .mangled = 0.01 * static_cast<double>(below(3))};
  }

  void run() {
    for (int i = 0; i < 60; ++i) {
      something_happens();
      network_.run_for(static_cast<int64_t>(below(kSecond)));
    }
    network_.weather = {};
    network_.may_pass = [](size_t, size_t) { return true; };
    for (auto& machine : network_.machines) machine.slow_ns = 0;
    network_.run_for(10 * kSecond);  // the last late datagrams and stopped machines
    const auto taken_ns = network_.run_until_agreed(300 * kSecond);
    ASSERT_TRUE(taken_ns.has_value());
    EXPECT_LE(*taken_ns, 30 * kSecond);
    network_.run_for(15 * kSecond);
    expect_same_lists(network_);
  }

 private:
  uint64_t below(uint64_t bound) { return network_.random().below(bound); }

  void something_happens() {
    auto& machines = network_.machines;
    const size_t number = below(machines.size());
    std::vector<size_t> all(machines.size());
    std::iota(all.begin(), all.end(), 0);
    switch (below(8)) {
      case 0:
        if (network_.taking_part().size() > 1) network_.kill(number);
        break;
      case 1:
        network_.restart(number, all);
        break;
      case 2:
        if (machines.size() < 40) network_.join(all);
        break;
      case 3:
        if (machines[number].takes_part() && network_.taking_part().size() > 1) {
          network_.leave(number);
        }
        break;
      case 4:
        network_.stop_for(number, static_cast<int64_t>(below(10 * kSecond)));
        break;
      case 5:
        machines[number].slow_ns = static_cast<int64_t>(below(2)) * 300 * kMillisecond;
        break;
      case 6:
        machines[number].clock_ahead_ns += static_cast<int64_t>(below(100 * kSecond));
        break;
      default:
        cut(below(4), below(machines.size() + 1));
    }
  }

  void cut(uint64_t kind, size_t first) {
    network_.may_pass = [=](size_t from, size_t to) {
      return kind < 2 || (from < first) == (to < first) || (kind == 2 && from < first);
    };
  }

  MembershipNetwork network_;
};

TEST(MembershipNetwork, AfterChaosAllAgree) {
  for_each_seed(30, [](Simulator& simulator) { Chaos(simulator).run(); });
}

TEST(MembershipNetwork, TrafficDoesNotGrowWithTheNumberOfMachines) {
  const auto bytes_per_second = [](size_t count) {
    Simulator simulator(count);
    MembershipNetwork network(simulator);
    network.start(count);
    network.run_for(5 * kSecond);
    const uint64_t before = sent_bytes(network);
    network.run_for(5 * kSecond);
    return static_cast<double>(sent_bytes(network) - before) / 5 / static_cast<double>(count);
  };
  const double few = bytes_per_second(10);
  EXPECT_LE(few, 2000);
  EXPECT_LE(bytes_per_second(tests_all() ? 1000 : 200), 1.2 * few);
}

void expect_large_network_works(size_t count, double lost) {
  Simulator simulator(count);
  MembershipNetwork network(simulator);
  network.weather.lost = lost;
  network.start(count);
  network.run_for(kSecond);
  EXPECT_LE(seconds_until_dead_are_gone(network, count / 100), 4);
  for (int i = 0; i < 5; ++i) network.join({network.taking_part().front()});
  const auto taken_ns = network.run_until_agreed(60 * kSecond);
  ASSERT_TRUE(taken_ns.has_value());
  EXPECT_LE(*taken_ns, 5 * kSecond);
  EXPECT_EQ(network.false_deaths, 0u);
}

TEST(MembershipNetwork, ManyMachines) {
  expect_large_network_works(250, 0);
  expect_large_network_works(tests_all() ? 1000 : 200, 0.05);
  if (tests_all()) expect_large_network_works(3000, 0);
}

TEST(MembershipNetwork, TheHalvesOfALargeCutNetworkFindEachOther) {
  const size_t count = tests_all() ? 400 : 100;
  Simulator simulator(1);
  MembershipNetwork network(simulator);
  network.start(count);
  cut_and_heal(network, count / 2, false);
  const auto taken_ns = network.run_until_agreed(120 * kSecond);
  ASSERT_TRUE(taken_ns.has_value());
  EXPECT_LE(*taken_ns, 30 * kSecond);
}

}  // namespace
}  // namespace forebay::cache
