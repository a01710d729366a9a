// Answers that a server makes when it is asked, rather than files.
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "base/limits.h"
#include "base/mutex.h"
#include "io/machine.h"
#include "io/serve/range_client.h"
#include "io/serve/range_server.h"
#include "io/testing/comes_true.h"
#include "io/testing/raw_client.h"

namespace forebay::io::serve {
namespace {

using base::Code;
using base::MutexLock;

// Answers questions below /q/: "later" when the test says so, "fail" with an error, else with the
// path, the body and many bytes.
class Questions final : public ServedFiles {
 public:
  static constexpr size_t kMany = 5'000'000;
  std::optional<uint64_t> size(const std::string&) const override { return std::nullopt; }
  std::optional<std::vector<HeldRange>> find(const std::string&,
                                             const std::vector<WantedRange>&) const override {
    return std::nullopt;
  }
  void read(const std::string&, std::vector<Range>,
            std::function<void(Status)> done) const override {
    done({Code::kNotFound, "no file"});
  }
  bool answer(const Question& question,
              std::function<void(Result<MadeAnswer>)> done) const override {
    if (!question.path.starts_with("/q/")) return false;
    if (question.path == "/q/fail") {
      done(base::fail(Code::kUnsupported, "not this"));
    } else if (question.path == "/q/later") {
      MutexLock lock(mutex_);
      waiting_.push_back({question, std::move(done)});
      changed_.notify_all();
    } else {
      done(made(question));
    }
    return true;
  }

  static MadeAnswer made(const Question& question) {
    const auto text = std::make_shared<std::string>(question.path + " " + question.body + "\n");
    const auto many = std::make_shared<std::string>(kMany, 'x');
    return {
        .pieces = {base::as_bytes(*text), {}, base::as_bytes(*many)},
        .owner =
            std::make_shared<std::pair<std::shared_ptr<std::string>, std::shared_ptr<std::string>>>(
                text, many)};
  }
  struct Waiting {
    Question question;
    std::function<void(Result<MadeAnswer>)> done;
  };
  Waiting take() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (waiting_.empty()) changed_.wait(mutex_);
    Waiting first = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    return first;
  }

 private:
  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  mutable std::vector<Waiting> waiting_ GUARDED_BY(mutex_);
};

// Keeps an answer whatever its code is.
class Kept final : public http::Sink {
 public:
  Status begin(const http::Head&) override { return {}; }
  Status append(Bytes bytes) override {
    text.append(bytes.begin(), bytes.end());
    return {};
  }
  Status end() override { return {}; }
  std::string text;
};

struct Got {
  Status status;
  int code = 0;
  std::string text;
};

class QuestionsTest : public ::testing::TestWithParam<bool> {
 protected:
  QuestionsTest() {
    if (GetParam()) {
      job_ = std::make_shared<JobCertificate>(
          make_job_certificate(Secret("a secret of this test alone")).value());
    }
    server_ = RangeServer::start({.job = job_}, questions_).value();
    client_ = std::make_unique<RangeClient>(RangeClientOptions{.job = job_});
  }

  // Starts a request; its outcome is in the result once `end` was called.
  std::shared_ptr<Got> start(const std::string& path, std::optional<std::string> body,
                             std::function<void()> end) {
    const auto got = std::make_shared<Got>();
    const auto sink = std::make_shared<Kept>();
    client_->start(
        {.host = "127.0.0.1", .port = server_->port(), .target = path, .body = std::move(body)},
        *sink, [got, sink, end = std::move(end)](RangeOutcome outcome) {
          *got = {std::move(outcome.status), outcome.head.code, sink->text};
          end();
        });
    return got;
  }
  Got ask(const std::string& path, std::optional<std::string> body = {}) {
    base::Mutex mutex;
    base::CondVar changed;
    bool is_done = false;
    const auto got = start(path, std::move(body), [&] {
      MutexLock lock(mutex);
      is_done = true;
      changed.notify_all();
    });
    MutexLock lock(mutex);
    while (!is_done) changed.wait(mutex);
    return *got;
  }

  Questions questions_;
  std::shared_ptr<JobCertificate> job_;
  std::unique_ptr<RangeServer> server_;
  std::unique_ptr<RangeClient> client_;
};

TEST_P(QuestionsTest, WhatIsMadeIsSent) {
  const std::string many(Questions::kMany, 'x');
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(ask("/q/a").text, "/q/a \n" + many);
    const std::string body(100'000, 'b');
    EXPECT_EQ(ask("/q/b", body).text, "/q/b " + body + "\n" + many);
  }
  EXPECT_EQ(ask("/q/c", "").text, "/q/c \n" + many);
}

TEST_P(QuestionsTest, ErrorsAreTold) {
  const Got failed = ask("/q/fail");
  EXPECT_EQ(failed.code, 501);
  EXPECT_EQ(failed.text, "not this");
  EXPECT_EQ(ask("/other").code, 404);
  EXPECT_EQ(ask("/other", "x").code, 405);
  const Got long_one = ask("/q/a", std::string(base::kServedBodyBytesMax + 1, 'x'));
  EXPECT_TRUE(long_one.code == 413 || long_one.status.code() == Code::kUnavailable);
  EXPECT_EQ(ask("/q/a").code, 200);
}

TEST_P(QuestionsTest, WhoeverHangsUpIsNotAwaited) {
  const auto later = start("/q/later", {}, [] {});
  Questions::Waiting waiting = questions_.take();
  EXPECT_FALSE(waiting.question.unwanted.stop_requested());
  client_.reset();
  while (!waiting.question.unwanted.stop_requested()) std::this_thread::yield();
  EXPECT_EQ(later->status.code(), Code::kCancelled);
  waiting.done(Questions::made(waiting.question));  // nobody receives it
}

// The code that makes answers may keep `done` after the server has ended, as this test does until
// its own end. If this kept a connection alive, AddressSanitizer would report it.
TEST_P(QuestionsTest, TheServersEndEndsQuestions) {
  std::atomic<bool> has_outcome = false;
  const auto later = start("/q/later", {}, [&] { has_outcome = true; });
  Questions::Waiting waiting = questions_.take();
  EXPECT_FALSE(waiting.question.unwanted.stop_requested());
  std::thread end([&] { server_.reset(); });
  EXPECT_TRUE(io::testing::comes_true([&] { return waiting.question.unwanted.stop_requested(); }));
  waiting.done(base::fail(Code::kCancelled, "stopped"));
  end.join();
  EXPECT_TRUE(io::testing::comes_true([&] { return has_outcome.load(); }));
  client_.reset();  // would cancel a request that the server's end left open
  EXPECT_EQ(later->status.code(), Code::kUnavailable);
}

TEST_P(QuestionsTest, SeveralWaitAtOnce) {
  std::atomic<int> left = 4;
  std::vector<std::shared_ptr<Got>> got;
  for (int i = 0; i < 4; ++i) got.push_back(start("/q/later", std::to_string(i), [&] { --left; }));
  std::vector<Questions::Waiting> waiting;
  for (int i = 0; i < 4; ++i) waiting.push_back(questions_.take());
  for (auto& one : waiting) one.done(Questions::made(one.question));
  while (left > 0) std::this_thread::yield();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(got[static_cast<size_t>(i)]->text.substr(0, 11), fmt::format("/q/later {}\n", i));
  }
}

INSTANTIATE_TEST_SUITE_P(, QuestionsTest, ::testing::Values(false, true),
                         [](const auto& tested) { return tested.param ? "Tls" : "Plain"; });

TEST(Questions, MalformedOnesEnd) {
  const Questions questions;
  const auto server = RangeServer::start({}, questions).value();
  const std::string begin = "POST /q/a HTTP/1.1\r\nHost: localhost\r\n";
  EXPECT_TRUE(
      io::testing::exchange(server->port(), begin + "Content-Length: 9\r\n\r\nshort").empty());
  EXPECT_TRUE(io::testing::exchange(server->port(), begin + "Content-Length: -1\r\n\r\n")
                  .starts_with("HTTP/1.1 400"));
  EXPECT_TRUE(io::testing::exchange(server->port(), begin + "\r\n").starts_with("HTTP/1.1 411"));
  EXPECT_TRUE(io::testing::exchange(
                  server->port(), begin + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
                  .starts_with("HTTP/1.1 411"));
  EXPECT_TRUE(io::testing::exchange(server->port(), begin + "Content-Length: 1048577\r\n\r\n")
                  .starts_with("HTTP/1.1 413"));
  EXPECT_TRUE(io::testing::exchange(server->port(), "PUT /q/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
                  .starts_with("HTTP/1.1 405"));
}

}  // namespace
}  // namespace forebay::io::serve
