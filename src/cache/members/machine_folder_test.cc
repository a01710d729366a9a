#include "cache/members/machine_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <latch>
#include <thread>

#include "cache/cache.h"

namespace forebay::cache {
namespace {

class MachineFolderTest : public ::testing::Test {
 protected:
  MachineFolderTest()
      : folder_(::testing::TempDir() + "/machine_folder_test_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~MachineFolderTest() override { std::filesystem::remove_all(folder_); }
  CacheOptions options() const {
    return {.folder = folder_ + "/0", .disk_bytes_max = 1'000'000, .job = "job"};
  }
  // Leaves the files that a killed process leaves; returns its member.
  Member leave_a_dead_process() const {
    const auto cache = Cache::open(options()).value();
    std::filesystem::copy(folder_ + "/0", folder_ + "/copy",
                          std::filesystem::copy_options::recursive);
    return cache->machine();
  }

  const std::string folder_;
};

TEST_F(MachineFolderTest, ADeadProcessServesNothing) {
  auto first = MachineFolder::open(folder_ + "/0").value();
  ASSERT_TRUE(first->write({.machine = {.id = "first"}}).ok());
  const auto second = MachineFolder::open(folder_ + "/0").value();
  EXPECT_EQ(second->read_served()->machine.id, "first");
  EXPECT_TRUE(second->has_others());
  first.reset();
  EXPECT_EQ(second->read_served(), std::nullopt);
  EXPECT_EQ(second->read()->machine.id, "first");
  EXPECT_FALSE(second->has_others());
}

// A job that is started again has several processes on a machine, one of which takes the dead
// process's place. Until then the others must not ask at the dead process's port.
TEST_F(MachineFolderTest, NobodyFollowsADeadProcess) {
  const Member dead = leave_a_dead_process();
  std::filesystem::rename(folder_ + "/copy", folder_ + "/0");
  const auto next = MachineFolder::open(folder_ + "/0").value();
  ASSERT_TRUE(next->claim().value());
  ASSERT_EQ(next->read()->machine, dead);
  Member living = dead;
  living.incarnation = dead.incarnation + 1;
  std::latch has_begun(1);
  std::jthread other([&] {
    has_begun.count_down();
    const auto cache = Cache::open(options()).value();
    EXPECT_EQ(cache->machine(), living);
    EXPECT_FALSE(cache->stats().serves);
  });
  has_begun.wait();
  ::usleep(100'000);  // time to find the dead process's notice
  ASSERT_TRUE(next->write({.machine = living, .members = {living}, .job = "job"}).ok());
}

}  // namespace
}  // namespace forebay::cache
