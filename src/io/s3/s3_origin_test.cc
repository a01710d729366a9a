// What a store answers seldom, from a server whose answers the tests decide.
#include "io/s3/s3_origin.h"

#include <gmock/gmock.h>

#include "io/testing/http_listener.h"
#include "io/testing/s3_surroundings.h"

namespace forebay::io::s3 {
namespace {

using base::Code;
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
  EXPECT_THAT(error_of(entries), HasSubstr("goes on where it was before"));
  EXPECT_EQ(store.heard().size(), 2u);
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
