#include "io/children.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

namespace forebay::io {
namespace {

// Whether a child has the descriptor open.
bool child_has(int fd) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::fcntl(fd, F_GETFD) == -1 ? 1 : 0);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WEXITSTATUS(status) == 0;
}

TEST(ChildrenTest, ADescriptorIsClosedInChildrenUntilItIsKept) {
  const int fd = ::open("/dev/null", O_RDONLY);
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(child_has(fd));
  close_in_children(fd);
  EXPECT_FALSE(child_has(fd));
  EXPECT_NE(::fcntl(fd, F_GETFD), -1);
  keep_in_children(fd);
  EXPECT_TRUE(child_has(fd));
  ::close(fd);
}

// posix_spawn() calls no handlers of pthread_atfork().
TEST(ChildrenTest, ProgramsThatAreRunDoNotHaveIt) {
  const int fd = ::open("/dev/null", O_RDONLY);
  ASSERT_GE(fd, 0);
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const auto is_in_program = [&path] {
    std::array<const char*, 4> words = {"test", "-e", path.c_str(), nullptr};
    pid_t child = 0;
    EXPECT_EQ(::posix_spawnp(&child, words[0], nullptr, nullptr,
                             const_cast<char* const*>(words.data()), ::environ),
              0);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WEXITSTATUS(status) == 0;
  };
  EXPECT_TRUE(is_in_program());
  close_in_children(fd);
  EXPECT_FALSE(is_in_program());
  keep_in_children(fd);
  ::close(fd);
}

TEST(ChildrenTest, NumbersThatAreNoDescriptorsAreLeftAlone) {
  const int fd = ::open("/dev/null", O_RDONLY);
  ASSERT_GE(fd, 0);
  // A table that wraps around at a power of two would take the large number for fd.
  for (const int number : {-1, (1 << 20) + fd}) {
    ASSERT_EQ(::fcntl(number, F_GETFD), -1);
    close_in_children(number);
    EXPECT_TRUE(child_has(fd)) << number;
    close_in_children(fd);
    keep_in_children(number);
    EXPECT_FALSE(child_has(fd)) << number;
    keep_in_children(fd);
  }
  ::close(fd);
}

}  // namespace
}  // namespace forebay::io
