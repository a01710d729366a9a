#include "cache/machine_locations.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace forebay::cache {
namespace {

TEST(MachineLocations, AFolderThatAnotherUserMadeFirstStopsNobody) {
  const std::string common = "a job of this test " + std::to_string(::getpid());
  const MemoryLocation first = memory_location(common);
  EXPECT_EQ(memory_location(common).folder, first.folder);
  ASSERT_EQ(::mkdir(first.folder.c_str(), 0700), 0);
  EXPECT_EQ(memory_location(common).folder, first.folder) << "it is this user's own";
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(first.folder.c_str(), 65534, 65534), 0);
    const MemoryLocation other = memory_location(common);
    EXPECT_EQ(other.folder, first.folder + "-1");
    EXPECT_EQ(other.prefix, first.prefix);
    EXPECT_EQ(memory_location(common).folder, other.folder) << "all processes must find the same";
  }
  ASSERT_EQ(::rmdir(first.folder.c_str()), 0);
}

}  // namespace
}  // namespace forebay::cache
