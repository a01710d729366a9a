#include "io/http/answer.h"

#include <gmock/gmock.h>

namespace forebay::io::http {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Answer, WhatIsEncodedIsRefusedAndTheProxyIsNamed) {
  for (const char* const plain : {"", "identity"}) {
    EXPECT_TRUE(check_not_encoded({.code = 206, .headers = {{"content-encoding", plain}}}).ok());
  }
  const Status direct = check_not_encoded({.code = 200, .headers = {{"content-encoding", "gzip"}}});
  EXPECT_EQ(direct.code(), base::Code::kIo);
  EXPECT_THAT(direct.message(), HasSubstr("(Content-Encoding: gzip)"));
  EXPECT_THAT(direct.message(), Not(HasSubstr("Via")));
  const Status through = check_not_encoded(
      {.code = 206, .headers = {{"content-encoding", "gzip, br\x1b[31m"}, {"via", "1.1 proxy\n"}}});
  EXPECT_THAT(through.message(), HasSubstr("(Via: 1.1 proxy )"));
  EXPECT_THAT(through.message(), HasSubstr("gzip, br [31m"));
}

}  // namespace
}  // namespace forebay::io::http
