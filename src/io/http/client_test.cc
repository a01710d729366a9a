// What a client does if the machine has no memory or threads left.
#include "io/http/client.h"

#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>

#include "io/testing/http_listener.h"

namespace forebay::io::http {
namespace {

using base::Code;
using ::testing::HasSubstr;

class CountingSink : public Sink {
 public:
  Status begin(const Head&) override { return {}; }
  Status append(Bytes bytes) override {
    received += bytes.size();
    return {};
  }
  Status end() override { return {}; }
  size_t received = 0;
};

class GreedySink final : public CountingSink {
 public:
  explicit GreedySink(int at) : at_(at) {}
  Status begin(const Head&) override { return take(0); }
  Status append(Bytes) override { return take(1); }
  Status end() override { return take(2); }

 private:
  Status take(int now) const {
    if (now == at_) throw std::bad_alloc();
    return {};
  }
  const int at_;
};

// A bug once: it ended the process.
TEST(Client, ASinkWithoutMemoryEndsOnlyItsRequest) {
  const HttpListener server([](const HeardRequest&) -> Reply { return {.body = "body"}; });
  Client client({});
  for (const int at : {0, 1, 2}) {
    GreedySink greedy(at);
    const Outcome outcome = client.perform({.url = server.url()}, greedy);
    EXPECT_EQ(outcome.status.code(), Code::kNoMemory) << at;
    EXPECT_THAT(outcome.status.message(), HasSubstr("free some memory"));
    CountingSink sink;
    EXPECT_TRUE(client.perform({.url = server.url()}, sink).status.ok());
    EXPECT_EQ(sink.received, 4u);
  }
}

// A bug once: it ended the process.
TEST(Client, ARequestFailsWhereNoThreadCanBegin) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || defined(__aarch64__)
  GTEST_SKIP() << "sanitizers and qemu begin threads in ways of their own";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    // No machine has so much memory for a stack.
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size_t{1} << 60);
    pthread_setattr_default_np(&attributes);
    Client client({});
    CountingSink sink;
    const Outcome outcome = client.perform({.url = "http://127.0.0.1:1"}, sink);
    const bool is_right = outcome.status.code() == Code::kNoMemory &&
                          outcome.status.message().find("start a thread") != std::string::npos;
    ::_exit(is_right ? 0 : 1);
  }
  int state = 0;
  ::waitpid(child, &state, 0);
  EXPECT_EQ(state, 0);
}

}  // namespace
}  // namespace forebay::io::http
