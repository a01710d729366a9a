#include "io/http/web_origin.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/crew.h"
#include "base/random.h"
#include "io/machine.h"
#include "io/read_queue.h"
#include "io/testing/http_listener.h"
#include "io/testing/web_server.h"

namespace forebay::io::http {
namespace {

using base::ByteVector;
using base::Code;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

ByteVector drawn_bytes(size_t count) {
  ByteVector bytes(count);
  base::Random random(7, base::Purpose::kTest);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next_u32());
  return bytes;
}

// Short waits, because the servers of these tests are on this machine.
ServiceOptions quick() {
  ServiceOptions options;
  options.client.connect_ns = 2000 * kMs;
  options.client.stall_ns = 2000 * kMs;
  options.retry = {.retries_max = 3, .first_wait_ns = 10 * kMs, .wait_ns_max = 40 * kMs};
  return options;
}

class WebOriginTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = testing::WebServer::start();
    if (server_ == nullptr) GTEST_SKIP() << "nginx is not installed (nginx-light)";
    server_->write("a.bin", content_);
  }
  // Reads ranges of a.bin, and compares them.
  Status read(const Origin& origin, const std::string& below,
              const std::vector<std::pair<uint64_t, size_t>>& wanted) const {
    ASSIGN_OR_RETURN(const auto file, origin.open(server_->url("a.bin", below)));
    std::vector<ByteVector> outs;
    std::vector<Range> ranges;
    for (const auto& [offset, length] : wanted) outs.emplace_back(length);
    for (size_t i = 0; i < wanted.size(); ++i) ranges.push_back({wanted[i].first, outs[i]});
    base::Mutex mutex;
    base::CondVar changed;
    std::optional<Status> outcome;
    file->start(ranges, {}, [&](Status status) {
      base::MutexLock lock(mutex);
      outcome = std::move(status);
      changed.notify_all();
    });
    base::MutexLock lock(mutex);
    while (!outcome) changed.wait(mutex);
    if (!outcome->ok()) return *outcome;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto from = content_.begin() + static_cast<int64_t>(wanted[i].first);
      EXPECT_TRUE(std::equal(outs[i].begin(), outs[i].end(), from)) << i;
    }
    return {};
  }

  const ByteVector content_ = drawn_bytes(3 << 20);
  std::unique_ptr<testing::WebServer> server_;
};

TEST_F(WebOriginTest, ReadsRangesWhateverWayTheServerAnswers) {
  for (const char* const below : {"", "one", "whole"}) {
    const WebOrigin origin(quick());
    std::vector<std::pair<uint64_t, size_t>> many;
    for (uint64_t i = 0; i < 200; ++i) many.emplace_back(i * 10'000, 1 + i * 7);
    const Status status = read(origin, below, many);
    EXPECT_TRUE(status.ok()) << below << status.message();
    EXPECT_TRUE(read(origin, below, {{0, content_.size()}}).ok());
    EXPECT_TRUE(read(origin, below, {{content_.size() - 1, 1}}).ok());
  }
  const WebOrigin origin(quick());
  EXPECT_TRUE(read(origin, "", {{5, 3}, {100, 4}, {2'000'000, 9}}).ok());
  EXPECT_EQ(origin.service().traffic().requests, 2u);  // one asks for the size
  EXPECT_LT(origin.service().traffic().bytes_received, 3000u);
}

TEST_F(WebOriginTest, SaysWhatAFileIs) {
  const WebOrigin origin(quick());
  const auto file = origin.open(server_->url("a.bin")).value();
  EXPECT_EQ(file->identity().size, content_.size());
  EXPECT_GT(file->identity().modified_ns, 0);
  EXPECT_NE(file->identity().etag, "");
  EXPECT_EQ(origin.stat(server_->url("a.bin")).value().size, content_.size());
  EXPECT_EQ(base::status_of(origin.stat(server_->url("none"))).code(), Code::kNotFound);
  EXPECT_EQ(base::status_of(origin.open(server_->url("none"))).code(), Code::kNotFound);
  EXPECT_EQ(base::status_of(origin.list(server_->url(""))).code(), Code::kUnsupported);
  ByteVector out(2);
  EXPECT_EQ(file->read(content_.size() - 1, out).code(), Code::kTruncated);
}

TEST_F(WebOriginTest, NoticesAFileThatIsAnotherOne) {
  const WebOrigin origin(quick());
  const auto file = origin.open(server_->url("a.bin")).value();
  ByteVector other = content_;
  other.push_back(1);
  server_->write("a.bin", other);
  ByteVector out(10);
  const Status status = file->read(0, out);
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_THAT(status.message(), HasSubstr("the file was replaced: its ETag"));
  const auto known = origin.open(server_->url("a.bin"), {.known = Identity{.size = 77}}).value();
  EXPECT_THAT(known->read(0, out).message(), HasSubstr("bytes, but 77 were expected"));
}

TEST_F(WebOriginTest, GivesUpWithAReason) {
  const WebOrigin origin(quick());
  const auto message = [&](const std::string& url) {
    return base::status_of(origin.open(url)).message();
  };
  EXPECT_THAT(message(server_->url("a.bin", "busy")), HasSubstr("answered 503"));
  EXPECT_THAT(message(server_->url("a.bin", "busy")), HasSubstr("tried 4 times"));
  EXPECT_THAT(message(server_->url("a.bin", "loop")), HasSubstr("redirects"));
  EXPECT_THAT(message("http://127.0.0.1:1/x"), HasSubstr("127.0.0.1:1"));
  EXPECT_THAT(message("http://no-such-host.invalid/x"),
              AllOf(HasSubstr("no-such-host.invalid"), HasSubstr("tried 4 times")));
}

TEST(WebOriginWithoutNginxTest, AsksForThePathAsItIsWritten) {
  const HttpListener server([](const HeardRequest&) -> Reply { return {.body = "x"}; });
  const WebOrigin origin(quick());
  EXPECT_TRUE(origin.open(server.url() + "/a/../b/./c%3F").has_value());
  EXPECT_EQ(server.heard().at(0).target, "/a/../b/./c%3F");
}

// A bug once: such an answer was received up to 16 MB, and then thrown away.
TEST(WebOriginWithoutNginxTest, AnAnswerThatAnnouncesTooMuchIsNotReceived) {
  const std::string content(12 << 20, 'x');
  const HttpListener server([&](const HeardRequest& request) -> Reply {
    if (request.method == "HEAD") {
      return {.headers = fmt::format("Content-Length: {}\r\n", content.size()),
              .says_length = false};
    }
    return {.body = content};
  });
  const WebOrigin origin(quick());
  const auto data = origin.read_whole(server.url() + "/a", 1 << 20);
  ASSERT_FALSE(data.has_value());
  EXPECT_EQ(data.error().code(), Code::kTooBig);
  EXPECT_THAT(data.error().message(), HasSubstr("12582912 bytes, more than the limit of 1048576"));
  EXPECT_LT(origin.service().traffic().bytes_received, 4u << 20);
  EXPECT_EQ(origin.read_whole(server.url() + "/a", content.size()).value().size(), content.size());
}

TEST_F(WebOriginTest, OutlivesAServerThatComesBack) {
  ServiceOptions options = quick();
  options.retry.retries_max = 100;
  const WebOrigin origin(options);
  const auto file = origin.open(server_->url("a.bin")).value();
  server_->kill();
  ByteVector out(1000);
  Status status;
  std::thread reader([&] { status = file->read(5, out); });
  ::usleep(100'000);
  server_->begin();
  reader.join();
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(std::equal(out.begin(), out.end(), content_.begin() + 5));
  EXPECT_GT(origin.service().traffic().retries, 0u);
}

TEST_F(WebOriginTest, EndsInTimeWhenNobodyWaitsAnyMore) {
  ServiceOptions options = quick();
  options.retry = {.retries_max = 1000, .first_wait_ns = 50'000 * kMs, .wait_ns_max = 50'000 * kMs};
  const WebOrigin origin(options);
  const auto file =
      origin.open(server_->url("a.bin", "busy"), {.known = Identity{.size = 100}}).value();
  ByteVector out(10);
  EXPECT_EQ(file->read(0, out, {.deadline_ns = monotonic_ns() + 50 * kMs}).code(), Code::kTimedOut);
  std::stop_source stop;
  std::thread stopper([&] {
    ::usleep(50'000);
    stop.request_stop();
  });
  EXPECT_EQ(file->read(0, out, {.stop = stop.get_token()}).code(), Code::kCancelled);
  stopper.join();
}

TEST_F(WebOriginTest, ManyReadsAreInFlightAtOnce) {
  const WebOrigin origin(quick());
  const auto file = std::shared_ptr(origin.open(server_->url("a.bin")).value());
  std::vector<ByteVector> outs(1000, ByteVector(1000));
  std::atomic<int> good = 0;
  {
    base::Crew crew;
    base::Mutex mutex;
    base::CondVar changed;
    size_t done = 0;
    ReadQueue queue(crew, {}, [&](const DoneRead& read) {
      if (read.status.ok() && read.bytes == 1000) ++good;
      base::MutexLock lock(mutex);
      ++done;
      changed.notify_all();
    });
    for (uint64_t i = 0; i < outs.size(); ++i) {
      queue.start({.open = [&]() -> Result<std::shared_ptr<const ReadableFile>> { return file; },
                   .ranges = {{i * 3000, outs[i]}}});
    }
    base::MutexLock lock(mutex);
    while (done < outs.size()) changed.wait(mutex);
  }
  EXPECT_EQ(good, 1000);
  for (uint64_t i = 0; i < outs.size(); ++i) {
    const auto from = content_.begin() + static_cast<int64_t>(i * 3000);
    ASSERT_TRUE(std::equal(outs[i].begin(), outs[i].end(), from)) << i;
  }
}

TEST(WebOriginWithoutNginxTest, RefusesAFileWhoseSizeNobodyTells) {
  const HttpListener server([](const HeardRequest&) -> Reply { return {.says_length = false}; });
  const auto file = WebOrigin(quick()).open(server.url() + "/a.bin");
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code(), Code::kUnsupported);
  EXPECT_THAT(file.error().message(), HasSubstr("no Content-Length"));
}

TEST_F(WebOriginTest, AForkedProcessHasConnectionsOfItsOwn) {
#if defined(__SANITIZE_THREAD__) || defined(__aarch64__)
  GTEST_SKIP() << "ThreadSanitizer and qemu allow no new threads after a fork beside others";
#endif
  const WebOrigin origin(quick());
  const auto file = origin.open(server_->url("a.bin")).value();
  const pid_t child = ::fork();
  if (child == 0) {
    ByteVector out(100);
    const bool same =
        file->read(7, out).ok() && std::equal(out.begin(), out.end(), content_.begin() + 7);
    ::_exit(same ? 0 : 1);
  }
  int state = 0;
  ::waitpid(child, &state, 0);
  EXPECT_EQ(state, 0);
  ByteVector out(100);
  EXPECT_TRUE(file->read(7, out).ok());
}

}  // namespace
}  // namespace forebay::io::http
