// Reading ranges from a server that is slow, in trouble, or odd in ways that the test decides.
#include "io/http/range_read.h"

#include <gmock/gmock.h>

#include <charconv>

#include "base/limits.h"
#include "base/random.h"
#include "io/http/web_origin.h"
#include "io/machine.h"
#include "io/testing/http_listener.h"

namespace forebay::io::http {
namespace {

using base::ByteVector;
using base::Code;
using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;
constexpr int kForEverMs = 60'000;  // longer than the test may take

// An answer that takes forever fails, so that only hedges end the tests in time.
ServiceOptions patient() {
  ServiceOptions options;
  options.client.stall_ns = 60'000 * kMs;
  options.retry.first_wait_ns = 5 * kMs;
  options.retry.wait_ns_max = 20 * kMs;
  return options;
}

class RangeReadTest : public ::testing::Test {
 protected:
  RangeReadTest() : content_(1 << 20, '\0') {
    base::Random random(3, base::Purpose::kTest);
    for (char& c : content_) c = static_cast<char>(random.next_u32());
  }

  // The range that was asked for, as an ordinary server sends it.
  Reply range(const HeardRequest& request) const {
    const std::string& text = request.headers.at("range");
    uint64_t first = 0;
    uint64_t last = 0;
    const char* const end = text.data() + text.size();
    const auto after = std::from_chars(text.data() + text.find('=') + 1, end, first);
    std::from_chars(after.ptr + 1, end, last);
    return {
        .status = 206,
        .body = content_.substr(first, last - first + 1),
        .headers = fmt::format("Content-Range: bytes {}-{}/{}\r\n", first, last, content_.size())};
  }
  std::unique_ptr<ReadableFile> open(const WebOrigin& origin, const HttpListener& server) const {
    return origin.open(server.url() + "/a", {.known = Identity{.size = content_.size()}}).value();
  }
  bool is_right(uint64_t offset, const ByteVector& out) const {
    return base::as_text(out) == std::string_view(content_).substr(offset, out.size());
  }

  // Reads the first bytes, which must be right; gives how many requests that took.
  uint64_t requests_of_a_read(const HttpListener& server) const {
    const WebOrigin origin(patient());
    ByteVector out(1000);
    const Status status = open(origin, server)->read(0, out, {});
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(is_right(0, out));
    return origin.service().traffic().requests;
  }

  std::string content_;
};

// Waits for reads that were started together.
class Reads {
 public:
  void start(const ReadableFile& file, std::vector<Range> ranges) {
    {
      base::MutexLock lock(mutex_);
      ++running_;
    }
    file.start(std::move(ranges), {}, [this](Status status) {
      base::MutexLock lock(mutex_);
      done_.push_back(std::move(status));
      --running_;
      changed_.notify_all();
    });
  }
  std::vector<Status> wait() {
    base::MutexLock lock(mutex_);
    while (running_ > 0) changed_.wait(mutex_);
    return done_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  size_t running_ GUARDED_BY(mutex_) = 0;
  std::vector<Status> done_ GUARDED_BY(mutex_);
};

TEST_F(RangeReadTest, ALateAnswerIsHedged) {
  int answers = 0;
  const HttpListener server([&](const HeardRequest& request) {
    Reply reply = range(request);
    if (++answers % 20 == 0) reply.delay_ms = kForEverMs;
    return reply;
  });
  const WebOrigin origin(patient());
  const auto file = open(origin, server);
  constexpr int kReads = 200;
  for (uint64_t i = 0; i < kReads; ++i) {
    ByteVector out(1000);
    const Status status = file->read(i * 5000, out, {});
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(is_right(i * 5000, out)) << i;
  }
  const Traffic traffic = origin.service().traffic();
  EXPECT_EQ(traffic.requests, kReads + traffic.hedges);
  EXPECT_EQ(traffic.retries, 0u);
  EXPECT_GE(traffic.hedges, 10u);  // a busy machine may be late, too
  EXPECT_LE(traffic.hedges, 8 + kReads / 20);
  EXPECT_GT(traffic.latency_s, 0);
}

TEST_F(RangeReadTest, ABodyThatStallsIsHedgedFromWhereItStands) {
  int answers = 0;
  const HttpListener server([&](const HeardRequest& request) {
    Reply reply = range(request);
    if (++answers == 1) {
      reply.delay_ms = kForEverMs;
      reply.before_delay = 300'000;
    }
    return reply;
  });
  const WebOrigin origin(patient());
  const auto file = open(origin, server);
  ByteVector out(content_.size());
  const Status status = file->read(0, out, {});
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(is_right(0, out));
  EXPECT_EQ(origin.service().traffic().hedges, 1u);
  EXPECT_EQ(server.heard().at(1).headers.at("range"),
            fmt::format("bytes=300000-{}", content_.size() - 1));
}

TEST_F(RangeReadTest, HedgesHaveABudget) {
  const HttpListener server([&](const HeardRequest& request) {
    Reply reply = range(request);
    reply.delay_ms = 1500;  // later than is slow before anything is known
    return reply;
  });
  ServiceOptions options = patient();
  options.hedges.most = 3;
  const WebOrigin origin(options);
  const auto file = open(origin, server);
  std::vector<ByteVector> outs(12, ByteVector(10));
  Reads reads;
  for (ByteVector& out : outs) reads.start(*file, {{0, out}});
  for (const Status& status : reads.wait()) EXPECT_TRUE(status.ok()) << status.message();
  for (const ByteVector& out : outs) EXPECT_TRUE(is_right(0, out));
  EXPECT_EQ(origin.service().traffic().hedges, 3u);
}

TEST_F(RangeReadTest, AHedgeThatFailsDoesNoHarm) {
  int answers = 0;
  const HttpListener server([&](const HeardRequest& request) -> Reply {
    Reply reply = range(request);
    if (++answers > 1) return {.status = 500};
    reply.delay_ms = 1500;
    return reply;
  });
  EXPECT_EQ(requests_of_a_read(server), 2u);
}

TEST_F(RangeReadTest, AnAnswerWithoutAnEndIsNotHedged) {
  const HttpListener server([&](const HeardRequest& request) {
    Reply reply = range(request);
    reply.cut = true;
    reply.delay_ms = 1500;
    reply.before_delay = reply.body.size();
    return reply;
  });
  EXPECT_EQ(requests_of_a_read(server), 1u);
}

TEST_F(RangeReadTest, AServerInTroubleIsNotHammered) {
  std::atomic<int> refused = 0;
  const HttpListener server([&](const HeardRequest&) -> Reply {
    ++refused;
    return {.status = 503};
  });
  ServiceOptions options = patient();
  options.retry.budget = {.most = 10, .per_second = 200};
  const WebOrigin origin(options);
  const auto file = open(origin, server);
  constexpr size_t kReads = 100;
  std::vector<ByteVector> outs(kReads, ByteVector(10));
  Reads reads;
  for (ByteVector& out : outs) reads.start(*file, {{0, out}});
  for (const Status& status : reads.wait()) {
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("answered 503"));
  }
  // Without a budget each read would ask eight times.
  EXPECT_LE(refused, 2.5 * kReads);
  EXPECT_EQ(origin.service().traffic().hedges, 0u);
}

TEST_F(RangeReadTest, AShortStormPasses) {
  std::atomic<int> answers = 0;
  const HttpListener server([&](const HeardRequest& request) -> Reply {
    if (++answers <= 100) return {.status = 503, .headers = "Retry-After: 0\r\n"};
    return range(request);
  });
  ServiceOptions options = patient();
  options.retry.budget.per_second = 100;
  const WebOrigin origin(options);
  const auto file = open(origin, server);
  std::vector<ByteVector> outs(64, ByteVector(10));
  Reads reads;
  for (ByteVector& out : outs) reads.start(*file, {{0, out}});
  for (const Status& status : reads.wait()) EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(origin.service().traffic().retries, 100u);
}

TEST_F(RangeReadTest, WhatNobodyWaitsForIsCut) {
  const HttpListener server([&](const HeardRequest& request) -> Reply {
    if (request.headers.at("range").starts_with("bytes=0-")) return {.status = 404};
    Reply reply = range(request);
    reply.delay_ms = kForEverMs;
    return reply;
  });
  ServiceOptions options = patient();
  options.hedges.most = 0;
  const WebOrigin origin(options);
  origin.service().note_one_range();
  const auto file = open(origin, server);
  std::vector<ByteVector> outs(10, ByteVector(10));
  std::vector<Range> ranges;
  for (uint64_t i = 0; i < outs.size(); ++i) ranges.push_back({i * 100, outs[i]});
  Reads reads;
  reads.start(*file, ranges);
  EXPECT_EQ(reads.wait().at(0).code(), Code::kNotFound);
}

TEST_F(RangeReadTest, AServerThatSendsWholeFilesIsAskedOnce) {
  const HttpListener server([&](const HeardRequest&) -> Reply { return {.body = content_}; });
  const WebOrigin origin(patient());
  const auto file = open(origin, server);
  for (const uint64_t requests : {4u, 5u}) {  // it is known from the second read on
    std::vector<ByteVector> outs(200, ByteVector(10));
    std::vector<Range> ranges;
    for (uint64_t i = 0; i < outs.size(); ++i) ranges.push_back({i * 1000, outs[i]});
    Reads reads;
    reads.start(*file, ranges);
    for (const Status& status : reads.wait()) EXPECT_TRUE(status.ok()) << status.message();
    for (uint64_t i = 0; i < outs.size(); ++i) EXPECT_TRUE(is_right(i * 1000, outs[i]));
    EXPECT_EQ(origin.service().traffic().requests, requests);
  }
  EXPECT_EQ(server.heard().back().headers.at("range"), "bytes=0-199009");
}

// A bug once: one answer with a whole file made all later requests ask for everything between their
// ranges, also when the server answered ranges again.
TEST_F(RangeReadTest, AServerThatAnswersRangesAgainIsAskedForThem) {
  std::atomic<bool> sends_whole_files = true;
  const HttpListener server([&](const HeardRequest& request) -> Reply {
    return sends_whole_files ? Reply{.body = content_} : range(request);
  });
  const WebOrigin origin(patient());
  const auto file = open(origin, server);
  const auto read = [&] {
    std::vector<ByteVector> outs(200, ByteVector(10));
    std::vector<Range> ranges;
    for (uint64_t i = 0; i < outs.size(); ++i) ranges.push_back({i * 1000, outs[i]});
    Reads reads;
    reads.start(*file, ranges);
    for (const Status& status : reads.wait()) EXPECT_TRUE(status.ok()) << status.message();
    for (uint64_t i = 0; i < outs.size(); ++i) EXPECT_TRUE(is_right(i * 1000, outs[i]));
  };
  read();
  EXPECT_EQ(origin.ranges_max(""), SIZE_MAX);
  sends_whole_files = false;
  read();
  EXPECT_EQ(origin.ranges_max(""), base::kHttpRangesMax);
}

// A bug once: it was tried again until no retries were left.
TEST_F(RangeReadTest, NothingIsTriedAgainAfterTheDeadline) {
  const HttpListener server([&](const HeardRequest& request) {
    Reply reply = range(request);
    reply.delay_ms = kForEverMs;
    return reply;
  });
  const WebOrigin origin(patient());
  ByteVector out(10);
  const Status status =
      open(origin, server)->read(0, out, {.deadline_ns = monotonic_ns() + 100 * kMs});
  EXPECT_EQ(status.code(), Code::kTimedOut);
  EXPECT_THAT(status.message(), ::testing::Not(HasSubstr("tried")));
  EXPECT_EQ(server.heard().size(), 1u);
}

}  // namespace
}  // namespace forebay::io::http
