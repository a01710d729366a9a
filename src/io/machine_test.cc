#include "io/machine.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <thread>

namespace forebay::io {
namespace {

TEST(Machine, ClocksGoForward) {
  const int64_t start = monotonic_ns();
  EXPECT_GE(monotonic_ns(), start);
  EXPECT_GT(process_cpu_ns(), 0);
  EXPECT_GE(usable_cores(), 1);
  EXPECT_GT(resident_bytes(), 0u);
}

TEST(Machine, AvailableMemoryIsSomeAndBelowTheMachines) {
  EXPECT_GT(available_memory_bytes(), 16u << 20);
  EXPECT_LT(available_memory_bytes(), uint64_t{1} << 50);
}

TEST(Machine, OpenFilesHaveALimit) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(open_files_max(), limit.rlim_cur);
}

TEST(Machine, AThreadCanWorkInTheBackground) {
  const int before = ::sched_getscheduler(0);
  int inside = -1;
  std::thread([&] {
    work_in_background();
    inside = ::sched_getscheduler(0);
  }).join();
  EXPECT_EQ(inside, SCHED_BATCH);
  EXPECT_EQ(::sched_getscheduler(0), before);
}

TEST(Machine, UsableCoresFollowTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace forebay::io
