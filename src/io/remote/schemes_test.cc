// Which paths an origin of all places takes for addresses.
#include <gtest/gtest.h>

#include "io/remote/any_origin.h"

namespace forebay::io {
namespace {

// A bug once: "S3://bucket/x" was a folder "S3:" on this machine.
TEST(Schemes, MayBeInUpperCase) {
  const AnyOrigin origin(
      {{"key", "k"}, {"secret", "s"}, {"region", "here"}, {"endpoint_url", "http://127.0.0.1:1"}});
  const AnyOrigin web;
  for (const char* path : {"s3://bucket/x", "S3://bucket/x", "Gs://bucket/x"}) {
    EXPECT_TRUE(origin.is_remote(path)) << path;
    EXPECT_EQ(origin.canonical(path).substr(2, 11), "://bucket/x");
  }
  EXPECT_TRUE(web.is_remote("HTTPS://host/x"));
  EXPECT_FALSE(web.is_remote("FILE:///x"));
  EXPECT_EQ(web.canonical("FILE:///x"), "/x");
  EXPECT_EQ(web.stat("FTP://host/x").error().code(), base::Code::kUnsupported);
}

}  // namespace
}  // namespace forebay::io
