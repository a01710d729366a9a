#include "io/origin.h"

#include <gtest/gtest.h>

namespace forebay::io {
namespace {

TEST(Paths, JoinAndParent) {
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(parent_path("a/b"), "a");
  EXPECT_EQ(parent_path("/b"), "/");
  EXPECT_EQ(parent_path("b"), ".");
  EXPECT_EQ(parent_path("a/b/"), "a");
}

}  // namespace
}  // namespace forebay::io
