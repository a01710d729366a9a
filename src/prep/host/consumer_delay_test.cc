#include "prep/host/consumer_delay.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "io/machine.h"

namespace forebay::prep {
namespace {

void work_ms(int64_t ms) {
  const int64_t end_ns = io::thread_cpu_ns() + ms * 1'000'000;
  while (io::thread_cpu_ns() < end_ns) {
  }
}

TEST(ConsumerDelay, AThreadThatSharesItsProcessorsMissesThem) {
  std::atomic<bool> ends = false;
  std::vector<std::thread> others;
  for (int i = 0; i < 3 * io::usable_cores(); ++i) {
    others.emplace_back([&] {
      while (!ends) work_ms(1);
    });
  }
  ConsumerDelay delay;
  EXPECT_FALSE(delay.is_long());
  for (int step = 0; step < 4; ++step) {
    delay.works();
    work_ms(50);
    delay.asks();
  }
  ends = true;
  for (std::thread& other : others) other.join();
  const bool is_counted = io::thread_delay_ns() > 0;  // by this kernel
  EXPECT_EQ(delay.is_long(), is_counted);
  // The other threads rest, which does not show what their work would cost.
  for (int step = 0; step < 10; ++step) {
    delay.works();
    work_ms(5);
    delay.asks();
  }
  EXPECT_EQ(delay.is_long(), is_counted);
}

TEST(ConsumerDelay, ThreadsAreNotMixedUp) {
  ConsumerDelay delay;
  delay.asks();
  std::thread([&] { delay.works(); }).join();
  delay.asks();
  EXPECT_FALSE(delay.is_long());
}

}  // namespace
}  // namespace forebay::prep
