// What a store answers seldom, from a server whose answers the tests decide.
#include "io/s3/s3_origin.h"

#include <gmock/gmock.h>

#include "base/limits.h"
#include "io/testing/credential_services.h"
#include "io/testing/http_listener.h"
#include "io/testing/s3_surroundings.h"

namespace forebay::io::s3 {
namespace {

using base::Code;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

std::unique_ptr<S3Origin> origin_at(const HttpListener& store) {
  http::ServiceOptions options;
  options.retry = {.retries_max = 2, .first_wait_ns = kMs, .wait_ns_max = 2 * kMs};
  auto origin = S3Origin::make(
      {.endpoint_url = store.url(), .access_key_id = "k", .secret_access_key = Secret("hush")},
      Surroundings{}, options);
  EXPECT_TRUE(origin.has_value()) << error_of(origin);
  return std::move(*origin);
}

// Like AWS: a signature for another region than the bucket's is refused.
Reply answer_of_two_regions(const HeardRequest& request) {
  const std::string region = request.target.starts_with("/one/") ? "eu-west-1" : "ap-south-1";
  if (request.headers.at("authorization").find("/" + region + "/s3/") == std::string::npos) {
    return {
        .status = 400,
        .body = fmt::format("<Error><Code>AuthorizationHeaderMalformed</Code><Region>{}</Region>"
                            "</Error>",
                            region)};
  }
  return {.status = 206, .body = "abcd", .headers = "Content-Range: bytes 0-3/4\r\n"};
}

TEST(S3OriginTest, AllRequestsUnderWayLearnTheRegionsOfTheirBuckets) {
  const HttpListener store(&answer_of_two_regions);
  const auto origin = origin_at(store);
  constexpr size_t kReads = 12;
  std::vector<base::ByteVector> outs(kReads, base::ByteVector(4));
  std::vector<std::unique_ptr<ReadableFile>> files;
  base::Mutex mutex;
  base::CondVar changed;
  std::vector<Status> done;
  for (size_t i = 0; i < kReads; ++i) {
    files.push_back(
        origin->open(i % 2 == 0 ? "s3://one/a" : "s3://two/b", {.known = Identity{.size = 4}})
            .value());
    files.back()->start({{0, outs[i]}}, {}, [&](Status status) {
      base::MutexLock lock(mutex);
      done.push_back(std::move(status));
      changed.notify_all();
    });
  }
  base::MutexLock lock(mutex);
  while (done.size() < kReads) changed.wait(mutex);
  for (const Status& status : done) EXPECT_TRUE(status.ok()) << status.message();
  for (const base::ByteVector& out : outs) EXPECT_EQ(base::as_text(out), "abcd");
}

TEST(S3OriginTest, AConflictOfTwoWritersIsTriedAgain) {
  std::atomic<int> puts = 0;
  const HttpListener store([&](const HeardRequest&) -> Reply {
    switch (++puts) {
      case 1:
        return {
            .status = 409,
            .body = "<Error><Code>ConditionalRequestConflict</Code><Message>m</Message></Error>"};
      case 2:
        return {};
      default:  // whether the store honours conditions
        return {.status = 412};
    }
  });
  const auto origin = origin_at(store);
  const Status status =
      origin->put("s3://b/a", base::as_bytes(std::string_view("x")), {.when = PutIf::kAbsent});
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(puts, 3);
  EXPECT_EQ(store.heard()[1].headers.at("if-none-match"), "*");
}

TEST(S3OriginTest, AnUploadIsCompletedAgainWhereASuccessTurnsOutToBeAnError) {
  const base::ByteVector content(kPartBytes + 1);
  std::atomic<int> completed = 0;
  const HttpListener store([&](const HeardRequest& request) -> Reply {
    if (request.method == "PUT") return {.headers = "ETag: \"e\"\r\n"};
    if (request.method == "GET") return {.body = "<ListMultipartUploadsResult/>"};
    if (request.target.ends_with("?uploads=")) {
      return {.body =
                  "<InitiateMultipartUploadResult><UploadId>u</UploadId>"
                  "</InitiateMultipartUploadResult>"};
    }
    if (++completed == 1) return {.body = "<Error><Code>InternalError</Code></Error>"};
    return {.body = "<CompleteMultipartUploadResult/>"};
  });
  const Status status = origin_at(store)->put("s3://b/a", content);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(completed, 2);
}

TEST(S3OriginTest, AHeadThatIsRefusedWithoutAReasonGetsNewKeys) {
  const HttpListener store([](const HeardRequest& request) -> Reply {
    const bool is_old = request.headers.at("authorization").find("=old/") != std::string::npos;
    return {.status = is_old ? 400 : 200};
  });
  HomeInMemory home;
  home.write_credentials("[default]\naws_access_key_id=old\naws_secret_access_key=hush\n");
  http::ServiceOptions options;
  options.retry = {.retries_max = 8, .first_wait_ns = 500 * kMs, .wait_ns_max = 500 * kMs};
  const auto origin = S3Origin::make({.endpoint_url = store.url()}, home.around, options);
  ASSERT_TRUE(origin.has_value()) << error_of(origin);
  home.write_credentials("[default]\naws_access_key_id=new\naws_secret_access_key=hush\n");
  const auto info = (*origin)->stat("s3://b/a");
  EXPECT_TRUE(info.has_value()) << error_of(info);
}

TEST(S3OriginTest, AListThatGoesInACircleIsRefused) {
  const HttpListener store([](const HeardRequest&) -> Reply {
    return {.body =
                "<ListBucketResult><IsTruncated>true</IsTruncated>"
                "<NextContinuationToken>t</NextContinuationToken></ListBucketResult>"};
  });
  const auto entries = origin_at(store)->list("s3://b/a");
  EXPECT_THAT(error_of(entries), HasSubstr("repeats the token of an earlier page"));
  EXPECT_EQ(store.heard().size(), 2u);
}

Reply page_before(std::string_view token, std::string_view entries) {
  return {.body = fmt::format("<ListBucketResult>{}<IsTruncated>true</IsTruncated>"
                              "<NextContinuationToken>{}</NextContinuationToken>"
                              "</ListBucketResult>",
                              entries, token)};
}

// A bug once: this went on until the memory was full.
TEST(S3OriginTest, AListThatGoesInALargerCircleIsRefused) {
  int pages = 0;
  const HttpListener store([&](const HeardRequest&) -> Reply {
    return page_before(fmt::format("t{}", ++pages % 3), "<Contents><Key>a/x</Key></Contents>");
  });
  const auto entries = origin_at(store)->list("s3://b/a");
  EXPECT_THAT(error_of(entries), HasSubstr("repeats the token of an earlier page"));
  EXPECT_EQ(store.heard().size(), 4u);
}

// A bug once: this went on forever.
TEST(S3OriginTest, AListOfEmptyPagesHasAnEnd) {
  int pages = 0;
  const HttpListener store(
      [&](const HeardRequest&) -> Reply { return page_before(fmt::format("t{}", ++pages), ""); });
  const auto entries = origin_at(store)->list("s3://b/a");
  EXPECT_THAT(error_of(entries), HasSubstr("empty pages in a row"));
  EXPECT_EQ(store.heard().size(), base::kS3EmptyPagesMax + 1u);
}

TEST(S3OriginTest, DotsInKeysAreDotsInKeys) {
  const HttpListener store([](const HeardRequest&) -> Reply { return {.body = "x"}; });
  const auto origin = origin_at(store);
  EXPECT_TRUE(origin->stat("s3://b/a/../x/./y").has_value());
  EXPECT_EQ(store.heard().at(0).target, "/b/a/../x/./y");
  (void)origin->list("s3://b/a/..");
  EXPECT_THAT(store.heard().at(1).target, HasSubstr("prefix=a%2F..%2F"));
}

// A bug once: a store that ignores If-Match alone was not noticed.
TEST(S3OriginTest, AStoreThatIgnoresOneConditionIsRefused) {
  const HttpListener store([](const HeardRequest& request) -> Reply {
    return {.status = request.headers.contains("if-none-match") ? 412 : 200};
  });
  const Status status =
      origin_at(store)->put("s3://b/a", base::as_bytes(std::string_view("x")),
                            {.when = PutIf::kUnchanged, .known = {.size = 1, .etag = "\"e\""}});
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("conditional writes (If-Match)"));
  EXPECT_EQ(store.heard().at(0).headers.at("if-match"), "\"e\"");
  EXPECT_EQ(store.heard().size(), 2u);
}

TEST(S3OriginTest, AStoreThatKnowsBothConditionsIsAskedOnceForEach) {
  const HttpListener store([](const HeardRequest& request) -> Reply {
    const auto match = request.headers.find("if-match");
    return {.status = match == request.headers.end() || match->second != "\"e\"" ? 412 : 200};
  });
  const auto origin = origin_at(store);
  for (int i = 0; i < 2; ++i) {
    const Status status =
        origin->put("s3://b/a", base::as_bytes(std::string_view("x")),
                    {.when = PutIf::kUnchanged, .known = {.size = 1, .etag = "\"e\""}});
    EXPECT_TRUE(status.ok()) << status.message();
  }
  EXPECT_EQ(store.heard().size(), 3u);
}

// S3 sends 400 where the body of a request came late or damaged.
TEST(S3OriginTest, ATransientRefusalIsTriedAgain) {
  for (const char* const code :
       {"RequestTimeout", "IncompleteBody", "BadDigest", "XAmzContentSHA256Mismatch"}) {
    std::atomic<int> requests = 0;
    const HttpListener store([&](const HeardRequest&) -> Reply {
      if (++requests > 1) return {.body = "<ListBucketResult/>"};
      return {.status = 400, .body = fmt::format("<Error><Code>{}</Code></Error>", code)};
    });
    const auto entries = origin_at(store)->list("s3://b/a");
    EXPECT_TRUE(entries.has_value()) << error_of(entries);
    EXPECT_EQ(requests, 2);
  }
}

// A bug once: the retries were over before the new keys came.
TEST(S3OriginTest, RefusedKeysWaitForNewOnes) {
  const HttpListener store([](const HeardRequest& request) -> Reply {
    if (request.headers.at("authorization").find("=new/") != std::string::npos) {
      return {.body = "<ListBucketResult/>"};
    }
    return {.status = 403, .body = "<Error><Code>InvalidAccessKeyId</Code></Error>"};
  });
  HomeInMemory home;
  home.write_credentials("[default]\naws_access_key_id=old\naws_secret_access_key=hush\n");
  http::ServiceOptions options;
  options.retry = {.retries_max = 2, .first_wait_ns = kMs, .wait_ns_max = kMs};
  const auto origin = S3Origin::make({.endpoint_url = store.url()}, home.around, options);
  ASSERT_TRUE(origin.has_value()) << error_of(origin);
  home.write_credentials("[default]\naws_access_key_id=new\naws_secret_access_key=hush\n");
  const auto entries = (*origin)->list("s3://b/a");
  EXPECT_TRUE(entries.has_value()) << error_of(entries);
}

TEST(S3OriginTest, KeysThatStayWrongAreGivenUp) {
  const HttpListener store([](const HeardRequest&) -> Reply {
    return {.status = 403, .body = "<Error><Code>InvalidAccessKeyId</Code></Error>"};
  });
  HomeInMemory home;
  home.write_credentials("[default]\naws_access_key_id=old\naws_secret_access_key=hush\n");
  http::ServiceOptions options;
  options.retry = {.retries_max = 1, .first_wait_ns = kMs, .wait_ns_max = kMs};
  const auto origin = S3Origin::make({.endpoint_url = store.url()}, home.around, options);
  ASSERT_TRUE(origin.has_value()) << error_of(origin);
  EXPECT_THAT(error_of((*origin)->list("s3://b/a")), HasSubstr("403 (InvalidAccessKeyId)"));
  EXPECT_LE(store.heard().size(), 4u);
}

TEST(S3OriginTest, WhatAStoreSaysIsCutAndPrintable) {
  const HttpListener store([](const HeardRequest&) -> Reply {
    return {
        .status = 403,
        .body = fmt::format("<Error><Code>A</Code><Message>one\n\x1b[31mtwo{}</Message></Error>",
                            std::string(1 << 20, 'm'))};
  });
  const std::string message = error_of(origin_at(store)->list("s3://b/a"));
  EXPECT_THAT(message, HasSubstr("(A: one  [31mtwommm"));
  EXPECT_LT(message.size(), 700u);
}

// A bug once: the message named neither the object nor the store.
TEST(S3OriginTest, EndedCredentialsAreSaidWithTheObject) {
  const HttpListener service([first = true](const HeardRequest&) mutable -> Reply {
    if (!std::exchange(first, false)) return {.status = 400};
    return json_keys("k", "2026-11-24T18:00:02Z");  // two seconds after the service's date
  });
  const HttpListener store([](const HeardRequest&) -> Reply { return {.body = "x"}; });
  HomeInMemory home;
  home.set({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", service.url() + "/keys"}});
  const auto origin = S3Origin::make({.endpoint_url = store.url()}, home.around, {});
  ASSERT_TRUE(origin.has_value()) << error_of(origin);
  Status status;
  while (status.ok()) status = base::status_of((*origin)->stat("s3://b/a"));
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("s3://b/a (127.0.0.1:"), HasSubstr("have expired"),
                    HasSubstr("HTTP status 400"), HasSubstr("other credentials")));
}

TEST(S3OriginTest, ReplacingWhatWasRemovedFindsItChanged) {
  const HttpListener store([](const HeardRequest&) -> Reply { return {.status = 404}; });
  const Status status =
      origin_at(store)->put("s3://b/a", base::as_bytes(std::string_view("x")),
                            {.when = PutIf::kUnchanged, .known = {.size = 1, .etag = "\"e\""}});
  EXPECT_EQ(status.code(), Code::kChanged);
  EXPECT_THAT(status.message(), HasSubstr("removed"));
}

}  // namespace
}  // namespace forebay::io::s3
