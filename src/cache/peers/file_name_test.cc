#include "cache/peers/file_name.h"

#include <gtest/gtest.h>

namespace forebay::cache {
namespace {

TEST(FileNameTest, EqualTargetsAreEqualNames) {
  const FileName names[] = {
      {.path = "s3://bucket/a b/%2F?size=1&ä.tar",
       .identity = {.size = UINT64_MAX, .modified_ns = -5, .etag = "\"x&y=%\""}},
      {.path = "/", .identity = {}},
      {.path = "", .identity = {.size = 1}},
  };
  for (const FileName& name : names) {
    const auto decoded = decode_target(encode_target(name));
    ASSERT_TRUE(decoded.has_value()) << name.path;
    EXPECT_EQ(*decoded, name);
  }
}

TEST(FileNameTest, OtherTargetsAreRefused) {
  for (const char* target :
       {"", "/", "/a", "/a?size=1", "/a?size=1&modified=0&etag=&x=1", "/a?size=01&modified=0&etag=",
        "/a/b?size=1&modified=0&etag=", "/%61?size=1&modified=0&etag=",
        "/%2f?size=1&modified=0&etag=", "/%?size=1&modified=0&etag=", "?size=1&modified=0&etag=",
        "/%zz?size=1&modified=0&etag=", "/a?size=-1&modified=0&etag="}) {
    EXPECT_FALSE(decode_target(target).has_value()) << target;
  }
}

}  // namespace
}  // namespace forebay::cache
