// Multipart uploads while answers get lost and another process uploads too. Ceph's behaviour in
// these cases is tested in tests/python/test_remote_pack.py.
#include "io/s3/upload.h"

#include <gmock/gmock.h>

#include "io/s3/s3_origin.h"
#include "io/testing/http_listener.h"
#include "io/testing/s3_surroundings.h"

namespace forebay::io::s3 {
namespace {

using base::Code;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;

constexpr int64_t kMs = 1'000'000;

// A bucket with one object, "a", and its uploads.
struct Store {
  std::map<std::string, std::map<std::string, std::string>> uploads = {};  // by name and part
  std::string object = {};
  int begins_lost = 0;            // answers that do not arrive although the upload was begun
  std::string completes_to = {};  // where not empty, completing loses its answer and stores this
  std::string grows = {};         // somebody else's upload, which gets a part with each of ours
  int begun = 0;

  Reply answer(const HeardRequest& request) {
    const std::string& target = request.target;
    const std::string id = target.substr(target.rfind('=') + 1);
    if (request.method == "HEAD") return head();
    if (request.method == "PUT") return put(id, target, request.body);
    if (request.method == "POST" && id.empty()) return begin();
    if (target.ends_with("&uploads=")) return list_uploads();
    if (target.find("uploadId=") == std::string::npos) return read(request.headers.at("range"));
    if (!uploads.contains(id)) {
      return {.status = 404, .body = "<Error><Code>NoSuchUpload</Code></Error>"};
    }
    if (request.method == "GET") return list_parts(id);
    if (request.method == "POST") return complete(id);
    uploads.erase(id);
    return {.status = 204};
  }

 private:
  Reply head() const {
    if (object.empty()) return {.status = 404};
    return {.headers = fmt::format("Content-Length: {}\r\n", object.size()), .says_length = false};
  }
  Reply read(const std::string& range) const {  // "bytes=0-9"
    const size_t first = std::stoul(range.substr(range.find('=') + 1));
    const size_t last = std::stoul(range.substr(range.find('-') + 1));
    return {
        .status = 206,
        .body = object.substr(first, last + 1 - first),
        .headers = fmt::format("Content-Range: bytes {}-{}/{}\r\n", first, last, object.size())};
  }
  Reply begin() {
    const std::string id = fmt::format("u{}", ++begun);
    uploads[id] = {};
    if (begins_lost-- > 0) return {.status = 503};
    return {.body = fmt::format("<InitiateMultipartUploadResult><UploadId>{}</UploadId>"
                                "</InitiateMultipartUploadResult>",
                                id)};
  }
  Reply put(const std::string& id, const std::string& target, const std::string& body) {
    if (!grows.empty()) uploads[grows][target] = "theirs";
    uploads[id][target] = body;
    return {.headers = "ETag: \"e\"\r\n"};
  }
  Reply complete(const std::string& id) {
    const bool is_lost = !completes_to.empty();
    object = completes_to;
    for (const auto& [part, bytes] : uploads[id]) object += is_lost ? "" : bytes;
    uploads.erase(id);
    return {.status = is_lost ? 503 : 200, .body = "<CompleteMultipartUploadResult/>"};
  }
  Reply list_uploads() const {
    std::string list;
    for (const auto& [id, parts] : uploads) {
      list += fmt::format("<Upload><Key>a</Key><UploadId>{}</UploadId></Upload>", id);
    }
    return {.body =
                fmt::format("<ListMultipartUploadsResult>{}</ListMultipartUploadsResult>", list)};
  }
  Reply list_parts(const std::string& id) const {
    std::string list;
    for (size_t i = 0; i < uploads.at(id).size(); ++i) list += "<Part><ETag>e</ETag></Part>";
    return {.body = fmt::format("<ListPartsResult>{}</ListPartsResult>", list)};
  }
};

const std::string& content() {
  static const std::string text = std::string(kPartBytes, 'x') + "the last part";
  return text;
}

Status put_content(Store& store) {
  const HttpListener listener([&](const HeardRequest& request) { return store.answer(request); });
  http::ServiceOptions options;
  options.retry = {.retries_max = 2, .first_wait_ns = kMs, .wait_ns_max = 2 * kMs};
  const auto origin = S3Origin::make(
      {.endpoint_url = listener.url(), .access_key_id = "k", .secret_access_key = Secret("hush")},
      Surroundings{}, options);
  EXPECT_TRUE(origin.has_value()) << error_of(origin);
  return (*origin)->put("s3://b/a", base::as_bytes(content()));
}

TEST(Upload, RemovesWhatAKilledProcessLeft) {
  Store store{.uploads = {{"old", {{"1", "part"}}}, {"older", {}}}};
  const Status status = put_content(store);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(store.object, content());
  EXPECT_THAT(store.uploads, IsEmpty());
}

TEST(Upload, LeavesAnUploadAloneThatGetsParts) {
  Store store{.uploads = {{"theirs", {}}}, .grows = "theirs"};
  EXPECT_TRUE(put_content(store).ok());
  EXPECT_THAT(store.uploads, ElementsAre(Key("theirs")));
}

TEST(Upload, RemovesOneWhoseBeginWasNotAnswered) {
  Store store{.begins_lost = 2};
  EXPECT_TRUE(put_content(store).ok());
  EXPECT_EQ(store.begun, 3);
  EXPECT_THAT(store.uploads, IsEmpty());
  // If no request was answered at all, the next put of the object removes them.
  store.begins_lost = 100;
  EXPECT_EQ(put_content(store).code(), Code::kUnavailable);
  EXPECT_EQ(store.uploads.size(), 3u);
  store.begins_lost = 0;
  EXPECT_TRUE(put_content(store).ok());
  EXPECT_THAT(store.uploads, IsEmpty());
}

// A bug once: each of three requests was retried until its timeouts and attempts were used up.
TEST(Upload, AStoreThatDoesNotAnswerIsWaitedForOnce) {
  const HttpListener listener([](const HeardRequest&) -> Reply { return {.status = 503}; });
  http::ServiceOptions options;
  options.retry = {.retries_max = 2, .first_wait_ns = kMs, .wait_ns_max = 2 * kMs};
  const auto origin = S3Origin::make(
      {.endpoint_url = listener.url(), .access_key_id = "k", .secret_access_key = Secret("hush")},
      Surroundings{}, options);
  ASSERT_TRUE(origin.has_value()) << error_of(origin);
  EXPECT_EQ((*origin)->put("s3://b/a", base::as_bytes(content())).code(), Code::kUnavailable);
  EXPECT_EQ(listener.heard().size(), 3u);
}

TEST(Upload, IsCompleteWhereOnlyTheAnswerWasLost) {
  Store store{.completes_to = content()};
  const Status status = put_content(store);
  EXPECT_TRUE(status.ok()) << status.message();
}

// A bug once: an object of the same size was taken for what was put.
TEST(Upload, IsNotCompleteWhereTheObjectHasOtherBytes) {
  std::string other = content();
  other.back() = '!';
  Store store{.completes_to = other};
  const Status status = put_content(store);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("does not know the upload any more"));
}

}  // namespace
}  // namespace forebay::io::s3
