// base/crew.h: threads are kept, each number works once, and the end waits.
#include "base/crew.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>

namespace forebay::base {
namespace {

TEST(CrewTest, KeepsItsThreadsFromWorkToWork) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  Crew crew;
  for (int round = 0; round < 200; ++round) {
    const auto count = static_cast<uint32_t>(1 + round % 4);
    std::multiset<uint32_t> numbers;
    crew.start(count, [&](uint32_t number) {
      const std::lock_guard lock(mutex);
      numbers.insert(number);
      threads.insert(std::this_thread::get_id());
    });
    crew.wait();
    std::multiset<uint32_t> expected;
    for (uint32_t number = 0; number < count; ++number) expected.insert(number);
    ASSERT_EQ(numbers, expected);
  }
  EXPECT_EQ(threads.size(), 4u);
}

TEST(CrewTest, TheEndWaitsForTheWork) {
  std::atomic<int> done = 0;
  {
    Crew crew;
    crew.start(3, [&](uint32_t) { ++done; });
  }
  EXPECT_EQ(done, 3);
}

}  // namespace
}  // namespace forebay::base
