#include "sim/simulator.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace forebay::sim {
namespace {

// A chain of events; each event draws the time of the next one.
std::string history(uint64_t seed) {
  Simulator simulator(seed);
  std::string out;
  int left = 20;
  std::function<void(char)> event = [&](char name) {
    out += name + std::to_string(simulator.clock().now_ns()) + " ";
    if (left-- <= 0) return;
    simulator.within(10, [&, name] { event(name); });
  };
  for (const char name : {'a', 'b', 'c'}) simulator.after(5, [&, name] { event(name); });
  EXPECT_TRUE(simulator.run(1000).ok());
  return out;
}

TEST(Simulator, TheSameSeedGivesTheSameHistory) {
  std::set<std::string> histories;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    histories.insert(history(seed));
    EXPECT_EQ(history(seed), history(seed));
  }
  EXPECT_EQ(histories.size(), 50u);
}

TEST(Simulator, TimeGoesForward) {
  for_each_seed(20, [](Simulator& simulator) {
    int64_t before = 0;
    int events = 0;
    for (int i = 0; i < 100; ++i) {
      simulator.within(1000, [&] {
        EXPECT_GE(simulator.clock().now_ns(), before);
        before = simulator.clock().now_ns();
        ++events;
      });
    }
    EXPECT_TRUE(simulator.run(100).ok());
    EXPECT_EQ(events, 100);
  });
}

TEST(Simulator, MachinesThatMakeWorkForEverAreAnError) {
  Simulator simulator(1);
  std::function<void()> again = [&] { simulator.after(1, again); };
  again();
  EXPECT_EQ(simulator.run(100).code(), base::Code::kTooBig);
}

TEST(Simulator, AFailureNamesItsSeedAndIsTheLast) {
  static int runs = 0;
  runs = 0;
  EXPECT_NONFATAL_FAILURE(
      for_each_seed(10, [](Simulator&) { EXPECT_NE(++runs, 4) << "the fourth seed"; }),
      "FOREBAY_SIM_SEED=3");
}

}  // namespace
}  // namespace forebay::sim
