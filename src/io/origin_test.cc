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

TEST(Origin, OnlyRangesThatGoOnInTheFileAndInMemoryAreJoined) {
  base::ByteVector memory(100);
  const auto part = [&](uint64_t offset, size_t at, size_t length, Again again = Again::kSoon) {
    return Range{offset, base::MutableBytes(memory).subspan(at, length), again};
  };
  const auto ranges = joined({part(0, 0, 10), part(10, 10, 5, Again::kLater), part(15, 15, 5),
                              part(21, 20, 5), part(26, 26, 4), part(30, 30, 1)});
  ASSERT_EQ(ranges.size(), 3u);
  for (const auto& [i, offset, at, length] :
       {std::tuple{0, 0, 0, 20}, {1, 21, 20, 5}, {2, 26, 26, 5}}) {
    const Range& range = ranges[static_cast<size_t>(i)];
    EXPECT_EQ(range.offset, static_cast<uint64_t>(offset));
    EXPECT_EQ(range.out.data(), memory.data() + at);
    EXPECT_EQ(range.out.size(), static_cast<size_t>(length));
  }
  EXPECT_TRUE(joined({}).empty());
}

}  // namespace
}  // namespace forebay::io
