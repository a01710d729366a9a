// The client of range servers, with servers that may send anything.
#include "io/serve/range_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <set>
#include <thread>

#include "base/bytes.h"
#include "base/mutex.h"
#include "io/machine.h"
#include "io/testing/perform.h"

namespace forebay::io::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using base::Bytes;
using base::Code;
using ::testing::HasSubstr;

// Each connection answers its requests with the next of its texts, piece by piece, and hangs up
// after the last one. A connection without texts answers nothing.
using Texts = std::vector<std::vector<std::string>>;

class Talker {
 public:
  // `connections`: the texts of the first, second, … connection; later connections have the texts
  // of the last.
  explicit Talker(std::vector<Texts> connections) : connections_(std::move(connections)) {
    acceptor_.listen();
    thread_ = std::thread([this] { run(); });
  }
  ~Talker() {
    ended_ = true;
    boost::system::error_code ignored;
    tcp::socket wake(context_);
    wake.connect(acceptor_.local_endpoint(), ignored);
    thread_.join();
    {
      base::MutexLock lock(mutex_);
      for (tcp::socket* socket : open_) socket->shutdown(tcp::socket::shutdown_both, ignored);
    }
    for (std::thread& one : talks_) one.join();
  }
  Talker(const Talker&) = delete;
  Talker& operator=(const Talker&) = delete;

  RangeRequest request(std::string target = "/a") const {
    return {.host = "127.0.0.1", .port = acceptor_.local_endpoint().port(), .target = target};
  }
  size_t connections() const { return accepted_; }
  // Whether a connection is open.
  bool is_open() {
    base::MutexLock lock(mutex_);
    return !open_.empty();
  }
  size_t requests() const { return requests_; }

 private:
  void run() {
    while (!ended_) {
      tcp::socket socket(context_);
      acceptor_.accept(socket);
      if (ended_) return;
      const size_t number = std::min<size_t>(accepted_++, connections_.size() - 1);
      talks_.emplace_back([this, number, own = std::move(socket)]() mutable { talk(own, number); });
    }
  }

  void talk(tcp::socket& socket, size_t number) {
    {
      base::MutexLock lock(mutex_);
      open_.insert(&socket);
    }
    const Texts& texts = connections_[number];
    boost::system::error_code error;
    std::string request;
    for (size_t at = 0; !error && (at < texts.size() || texts.empty()); ++at) {
      const size_t head =
          asio::read_until(socket, asio::dynamic_buffer(request), "\r\n\r\n", error);
      if (error) break;
      request.erase(0, head);
      ++requests_;
      if (texts.empty()) continue;
      for (const std::string& piece : texts[at]) {
        asio::write(socket, asio::buffer(piece), error);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    }
    base::MutexLock lock(mutex_);
    open_.erase(&socket);
    socket.close(error);
  }

  const std::vector<Texts> connections_;
  asio::io_context context_;
  tcp::acceptor acceptor_{context_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  std::atomic<bool> ended_ = false;
  std::atomic<size_t> accepted_ = 0;
  std::atomic<size_t> requests_ = 0;
  base::Mutex mutex_;
  std::set<tcp::socket*> open_ GUARDED_BY(mutex_);
  std::vector<std::thread> talks_;
  std::thread thread_;
};

// Takes answers of 200 alone, as text.
class Text final : public http::Sink {
 public:
  Status begin(const http::Head& head) override {
    if (head.code != 200) return {Code::kUnavailable, fmt::format("code {}", head.code)};
    return {};
  }
  Status append(Bytes bytes) override {
    text += base::as_text(bytes);
    return {};
  }
  Status end() override {
    ended = true;
    return {};
  }
  std::string text;
  bool ended = false;
};

std::string answer(std::string_view body) {
  return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
}

// The outcome of an answer in these pieces.
Status status_of(const std::vector<std::string>& pieces) {
  const Talker server({{pieces}});
  RangeClient client({});
  Text text;
  return testing::perform(client, server.request(), text).status;
}

TEST(RangeClientTest, AnAnswerMayComeInAnyPieces) {
  const std::string whole = answer("seven bytes");
  std::vector<std::string> bytes;
  for (const char c : whole) bytes.emplace_back(1, c);
  for (const auto& pieces : {std::vector{whole}, bytes}) {
    const Talker server({{pieces}});
    RangeClient client({});
    Text text;
    const RangeOutcome outcome = testing::perform(client, server.request(), text);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_EQ(outcome.head.code, 200);
    EXPECT_EQ(outcome.head.header("content-length"), "11");
    EXPECT_EQ(text.text, "seven bytes");
    EXPECT_TRUE(text.ended);
  }
}

TEST(RangeClientTest, ConnectionsAreUsedAgain) {
  const Talker server({{{answer("one")}, {answer("two")}, {answer("")}, {answer("four")}}});
  RangeClient client({});
  for (const char* const expected : {"one", "two", "", "four"}) {
    Text text;
    EXPECT_TRUE(testing::perform(client, server.request(), text).status.ok());
    EXPECT_EQ(text.text, expected);
  }
  EXPECT_EQ(server.connections(), 1u);
}

TEST(RangeClientTest, ARefusalKeepsTheConnection) {
  const Talker server(
      {{{"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone"}, {answer("here")}}});
  RangeClient client({});
  Text text;
  const RangeOutcome outcome = testing::perform(client, server.request(), text);
  EXPECT_EQ(outcome.head.code, 404);
  EXPECT_EQ(outcome.status.message(), "code 404");
  EXPECT_TRUE(testing::perform(client, server.request(), text).status.ok());
  EXPECT_EQ(text.text, "here");
  EXPECT_EQ(server.connections(), 1u);
}

TEST(RangeClientTest, AKeptConnectionThatWasClosedIsReplaced) {
  const Talker server({{{answer("one")}}, {{answer("two")}}});
  RangeClient client({});
  for (const char* const expected : {"one", "two"}) {
    Text text;
    EXPECT_TRUE(testing::perform(client, server.request(), text).status.ok());
    EXPECT_EQ(text.text, expected);
  }
  EXPECT_EQ(server.connections(), 2u);
}

TEST(RangeClientTest, AServerThatClosesAfterEachAnswerIsAskedAnew) {
  const Talker server({{{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\none"}}});
  RangeClient client({});
  for (int i = 0; i < 3; ++i) {
    Text text;
    EXPECT_TRUE(testing::perform(client, server.request(), text).status.ok());
  }
  EXPECT_EQ(server.connections(), 3u);
}

TEST(RangeClientTest, AnswersThatBreakTheRulesAreErrors) {
  EXPECT_EQ(status_of({"what?\r\n\r\n"}).code(), Code::kUnavailable);
  EXPECT_EQ(status_of({"HTTP/1.1 200 OK\r\n\r\nwithout a length"}).code(), Code::kUnavailable);
  EXPECT_EQ(status_of({"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"}).code(),
            Code::kUnavailable);
  EXPECT_EQ(status_of({"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}).code(),
            Code::kUnavailable);
  EXPECT_EQ(status_of({answer("too long") + "er"}).code(), Code::kUnavailable);
  EXPECT_EQ(status_of({"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"}).code(),
            Code::kTruncated);
  EXPECT_EQ(status_of({"HTTP/1.1 200 OK\r\nA: " + std::string(1 << 20, 'a')}).code(),
            Code::kUnavailable);
  EXPECT_EQ(status_of({"HTTP/1.1 404 No\r\nContent-Length: 99999999999\r\n\r\nno"}).code(),
            Code::kUnavailable);
  EXPECT_EQ(status_of({}).code(), Code::kUnavailable);
}

TEST(RangeClientTest, WhereNobodyListensThatIsSaid) {
  RangeRequest nobody;
  {
    const Talker server({Texts{}});
    nobody = server.request();
  }
  RangeClient client({});
  Text text;
  const Status status = testing::perform(client, nobody, text).status;
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("refused"));
  EXPECT_EQ(testing::perform(client, {.host = "no address", .target = "/"}, text).status.code(),
            Code::kInvalid);
}

TEST(RangeClientTest, SilenceEndsAtTheDeadline) {
  const Talker server({Texts{}});
  RangeClient client({});
  Text text;
  RangeRequest request = server.request();
  request.options.deadline_ns = monotonic_ns() + 100'000'000;
  EXPECT_EQ(testing::perform(client, request, text).status.code(), Code::kTimedOut);
}

TEST(RangeClientTest, TheTimeForAnAnswerBeginsWithItsRequest) {
  const Talker server({Texts{}});
  RangeClient client({.connections_to_one_max = 1});
  std::vector<Text> texts(3);
  std::vector<std::future<RangeOutcome>> outcomes;
  for (Text& text : texts) {
    RangeRequest request = server.request();
    request.answer_ns = 100'000'000;
    outcomes.push_back(testing::begin(client, request, text));
  }
  int64_t before_ns = 0;
  for (auto& future : outcomes) {
    const RangeOutcome outcome = future.get();
    EXPECT_EQ(outcome.status.code(), Code::kTimedOut);
    EXPECT_GE(outcome.sent_ns, before_ns + 100'000'000);
    before_ns = outcome.sent_ns;
  }
}

TEST(RangeClientTest, WhatWaitsIsNotSentWhereThatIsSaid) {
  const Talker server({Texts{}});
  RangeClient client({.connections_to_one_max = 1});
  std::vector<Text> texts(2);
  std::vector<std::future<RangeOutcome>> outcomes;
  std::atomic<bool> may = true;
  for (Text& text : texts) {
    RangeRequest request = server.request();
    request.may_send = [&] { return may.load(); };
    outcomes.push_back(testing::begin(client, request, text));
  }
  while (server.requests() < 1) std::this_thread::yield();
  may = false;
  EXPECT_EQ(outcomes[1].get().sent_ns, 0);
  EXPECT_EQ(outcomes[0].wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
}

TEST(RangeClientTest, ARequestCanBeStopped) {
  const Talker server({Texts{}});
  RangeClient client({});
  Text text;
  std::stop_source stop;
  RangeRequest request = server.request();
  request.options.stop = stop.get_token();
  auto outcome = testing::begin(client, request, text);
  EXPECT_EQ(outcome.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  stop.request_stop();
  EXPECT_EQ(outcome.get().status.code(), Code::kCancelled);
}

TEST(RangeClientTest, WhatIsNotWantedEndsWhenThatIsSaid) {
  const Talker server({Texts{}});
  RangeClient client({});
  Text text;
  std::atomic<bool> wanted = true;
  RangeRequest request = server.request();
  request.wanted = [&] { return wanted.load(); };
  auto outcome = testing::begin(client, request, text);
  wanted = false;
  client.drop_unwanted();
  EXPECT_EQ(outcome.get().status.code(), Code::kCancelled);
}

TEST(RangeClientTest, TheEndCancelsWhatIsInFlightOrWaits) {
  const Talker server({Texts{}});
  std::vector<std::future<RangeOutcome>> outcomes;
  std::vector<Text> texts(10);
  {
    RangeClient client({.connections_to_one_max = 2});
    for (Text& text : texts) outcomes.push_back(testing::begin(client, server.request(), text));
    while (server.requests() < 2) std::this_thread::yield();
  }
  for (auto& outcome : outcomes) EXPECT_EQ(outcome.get().status.code(), Code::kCancelled);
  EXPECT_EQ(server.connections(), 2u);
}

TEST(RangeClientTest, RequestsBeyondTheConnectionsWait) {
  const Talker server({Texts(20, {answer("a")})});
  RangeClient client({.connections_to_one_max = 3});
  std::vector<Text> texts(20);
  std::vector<std::future<RangeOutcome>> outcomes;
  for (Text& text : texts) outcomes.push_back(testing::begin(client, server.request(), text));
  for (auto& outcome : outcomes) EXPECT_TRUE(outcome.get().status.ok());
  EXPECT_LE(server.connections(), 3u);
}

TEST(RangeClientTest, AllServersTogetherHaveALimit) {
  std::vector<std::unique_ptr<Talker>> servers;
  for (int i = 0; i < 4; ++i) {
    servers.push_back(std::make_unique<Talker>(std::vector<Texts>{Texts(20, {answer("a")})}));
  }
  RangeClient client({.connections_max = 2});
  std::vector<Text> texts(20);
  std::vector<std::future<RangeOutcome>> outcomes;
  for (size_t i = 0; i < texts.size(); ++i) {
    outcomes.push_back(testing::begin(client, servers[i % 4]->request(), texts[i]));
  }
  for (auto& outcome : outcomes) EXPECT_TRUE(outcome.get().status.ok());
  const auto open = std::ranges::count_if(servers, [](const auto& one) { return one->is_open(); });
  EXPECT_LE(open, 2);
}

TEST(RangeClientTest, ADoneMayAskMore) {
  const Talker server({{{answer("one")}, {answer("two")}}});
  RangeClient client({});
  Text first;
  Text second;
  std::promise<Status> outcome;
  client.start(server.request(), first, [&](RangeOutcome) {
    client.start(server.request(), second,
                 [&](RangeOutcome done) { outcome.set_value(std::move(done.status)); });
  });
  EXPECT_TRUE(outcome.get_future().get().ok());
  EXPECT_EQ(second.text, "two");
}

}  // namespace
}  // namespace forebay::io::serve
