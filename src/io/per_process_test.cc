#include "io/per_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace forebay::io {
namespace {

TEST(PerProcessTest, TheFirstValueStaysAndAForkedProcessMakesItsOwn) {
  PerProcess<int> value;
  EXPECT_EQ(value.find(), nullptr);
  EXPECT_EQ(value.keep(std::make_unique<int>(1)), 1);
  EXPECT_EQ(value.keep(std::make_unique<int>(2)), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool none = value.find() == nullptr;
    ::_exit(none && value.keep(std::make_unique<int>(3)) == 3 ? 0 : 1);
  }
  int state = 0;
  ::waitpid(child, &state, 0);
  EXPECT_EQ(state, 0);
  EXPECT_EQ(*value.find(), 1);
}

}  // namespace
}  // namespace forebay::io
