#include "io/stop_flag.h"

#include <gtest/gtest.h>

#include <condition_variable>

namespace forebay::io {
namespace {

void wait_for(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait(lock, stop, [] { return false; });
}

TEST(StopFlag, WakesWhoeverWaits) {
  std::atomic<bool> flag = false;
  StopFlag stop(&flag);
  EXPECT_FALSE(stop.is_requested());
  std::jthread handler([&] { flag = true; });
  wait_for(stop.token());
  EXPECT_TRUE(stop.is_set());
  EXPECT_TRUE(stop.is_requested());
}

TEST(StopFlag, CanBeRequestedWithoutTheFlag) {
  const std::atomic<bool> flag = false;
  for (const std::atomic<bool>* given : {static_cast<const std::atomic<bool>*>(nullptr), &flag}) {
    StopFlag stop(given);
    stop.request();
    wait_for(stop.token());
    EXPECT_TRUE(stop.is_requested());
    EXPECT_FALSE(stop.is_set());
  }
}

}  // namespace
}  // namespace forebay::io
