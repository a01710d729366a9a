#include "io/http/signature.h"

#include <gmock/gmock.h>

#include "base/checksum.h"

namespace forebay::io::http {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr int64_t kDayNs = 1369353600'000'000'000;  // 24 May 2013

// Signed with the keys of the examples in AWS's documentation ("Signature Calculations for the
// Authorization Header"), from which the signatures are.
std::string authorization(const std::string& url, std::vector<std::string> headers = {}) {
  Request request{.url = url,
                  .headers = std::move(headers),
                  .body_sha256 = base::to_hex(base::sha256({})),
                  .region = "us-east-1"};
  request.signing = Signing{.access_key = "AKIAIOSFODNN7EXAMPLE",
                            .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                            .session_token = {},
                            .owner = nullptr,
                            .fetches = 0};
  const std::vector<Secret> lines = signed_headers(request, kDayNs);
  EXPECT_EQ(lines.at(1).reveal(), "x-amz-date: 20130524T000000Z");
  return std::string(lines.at(0).reveal());
}

TEST(Signature, IsThatOfAwssExamples) {
  const std::string host = "https://examplebucket.s3.amazonaws.com";
  EXPECT_EQ(authorization(host + "/test.txt", {"Range: bytes=0-9"}),
            "Authorization: AWS4-HMAC-SHA256 "
            "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_THAT(authorization(host + "/?lifecycle="),
              EndsWith("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
  EXPECT_THAT(authorization(host + "/?max-keys=2&prefix=J"),
              EndsWith("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST(Signature, TheUsualPortIsNoPartOfIt) {
  EXPECT_EQ(authorization("https://a:443/b"), authorization("https://a/b"));
  EXPECT_NE(authorization("https://a:80/b"), authorization("https://a/b"));
  EXPECT_EQ(authorization("http://a:80/b"), authorization("http://a/b"));
}

TEST(Signature, NamesAreSortedAndNotLines) {
  const std::vector<std::string> pair = {"x-amz-a-b: 1", "X-Amz-A: 2"};
  EXPECT_THAT(authorization("https://a/b", pair), HasSubstr("host;x-amz-a;x-amz-a-b;x-amz-c"));
  EXPECT_TRUE(needs_own_signature({"x-amz-a-b: 1", "x-amz-a: 2"}));
  EXPECT_FALSE(needs_own_signature({"x-amz-a: 1", "x-amz-a: 2", "x-amz-b: 3"}));
  EXPECT_FALSE(needs_own_signature({}));
}

}  // namespace
}  // namespace forebay::io::http
