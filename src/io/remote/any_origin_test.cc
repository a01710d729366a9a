#include "io/remote/any_origin.h"

#include <gmock/gmock.h>

namespace forebay::io {
namespace {

using base::Code;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Every secret in these addresses has "hush" in it.
std::vector<Status> all_ways(const std::string& path) {
  AnyOrigin origin;
  return {base::status_of(origin.open(path)),
          base::status_of(origin.open(path, {.known = Identity{.size = 1}})),
          base::status_of(origin.read_whole(path, 10)),
          base::status_of(origin.list(path)),
          base::status_of(origin.stat(path)),
          origin.put(path, {}),
          origin.remove(path),
          base::status_of(origin.lock(path)),
          base::status_of(origin.append_to(path))};
}

void expect_refused(const std::string& path, Code code, const std::string& message) {
  for (const Status& status : all_ways(path)) {
    EXPECT_EQ(status.code(), code) << path;
    EXPECT_THAT(status.message(), AllOf(HasSubstr(message), Not(HasSubstr("hush")))) << path;
  }
}

// A bug once: only reading refused it, and listing and writing printed the whole address.
TEST(AnyOrigin, RefusesAPasswordWithoutShowingIt) {
  for (const char* const user : {"me:hush", "hush", "me:hu@hush"}) {
    expect_refused(fmt::format("https://{}@host:1/a@b", user), Code::kInvalid,
                   "https://host:1/a@b: an address with a user and a password is refused");
  }
  expect_refused("https://me:hush@/a", Code::kInvalid, "names no host");
  expect_refused("HTTPS://me:hush@host/a", Code::kInvalid,
                 "https://host/a: an address with a user and a password is refused");
  expect_refused("ftp://me:hush@host/a", Code::kUnsupported, "the scheme ftp:// is not known");
  expect_refused("file://me:hush@host/a", Code::kInvalid, "file://host/a: a file's address");
}

TEST(AnyOrigin, RefusesAQueryWithoutShowingIt) {
  expect_refused("https://host/a/b?X-Amz-Signature=hush", Code::kInvalid,
                 "https://host/a/b: an address with a query (?) is refused");
  expect_refused("https://host?sig=hush/x", Code::kInvalid,
                 "https://host: an address with a query (?) is refused");
  expect_refused("http://host/a#hush", Code::kInvalid, "in a file's name write %23");
  expect_refused("http://me:hush@host/a?hush", Code::kInvalid, "http://host/a: an address");
}

// A bug once: everything before the first slash was taken for a bucket, and printed.
TEST(AnyOrigin, RefusesKeysInAnAddressWithoutShowingThem) {
  for (const char* const path : {"s3://KEY:hush@bucket/x", "s3://hush@bucket", "s3://KEY:hu/sh@b/x",
                                 "gs://KEY:hush@bucket/x", "s3://hush?/x"}) {
    expect_refused(path, Code::kInvalid, "a bucket's name comes first");
  }
  for (const Status& status : all_ways("s3://KEY:hu/sh@b/x")) {
    EXPECT_THAT(status.message(), Not(HasSubstr("sh@b")));
  }
  expect_refused("s3:///x", Code::kInvalid, "names no bucket");
}

// A bug once: "S3://bucket/x" was a folder "S3:" on this machine.
TEST(AnyOrigin, TakesSchemesInUpperCase) {
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
  EXPECT_EQ(web.stat("FTP://host/x").error().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace forebay::io
