// An asynchronous client of RangeServers. One thread drives all connections, which are kept and
// used again. A request is repeated only if it was sent on a kept connection that turns out to be
// closed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/http/answer.h"
#include "io/serve/job_certificate.h"

namespace forebay::io::serve {

struct RangeClientOptions {
  uint32_t connections_max = 256;        // to all servers
  uint32_t connections_to_one_max = 16;  // to one server; further requests wait
  int64_t connect_ns = 2'000'000'000;    // to establish a connection, including TLS
  // The certificate that servers show and that this client shows them. Null: plain HTTP.
  std::shared_ptr<const JobCertificate> job = {};
};

struct RangeRequest {
  std::string host = {};  // an IP address
  uint16_t port = 0;
  std::string target = {};                // percent-encoded
  std::vector<std::string> headers = {};  // "Name: value"
  std::optional<std::string> body = {};   // sent with POST; unset: the request is a GET
  ReadOptions options = {};
  // The time limit for the whole answer, after the request was given to a connection (kTimedOut).
  int64_t answer_ns = 3600'000'000'000;
  // Called in the client's thread while the request waits for a connection. If it returns false,
  // the request ends with kCancelled.
  std::function<bool()> may_send = [] { return true; };
  // Whether the request is still wanted. Called at any time, also after drop_unwanted().
  std::function<bool()> wanted = [] { return true; };
};

// How a request ended.
struct RangeOutcome {
  // Ok if a whole answer came and the sink took it; else kUnavailable, kTruncated, kTimedOut,
  // kCancelled, kNoMemory or the sink's error, which it may also return for an HTTP code.
  Status status = {};
  http::Head head = {};
  int64_t sent_ns = 0;  // when the request was given to a connection (monotonic_ns()); 0: never
};

// Any thread may call anything.
class RangeClient {
 public:
  explicit RangeClient(RangeClientOptions options);
  // Cancels all requests. `done` of each is called before this returns.
  ~RangeClient();
  RangeClient(const RangeClient&) = delete;
  RangeClient& operator=(const RangeClient&) = delete;

  // Returns at once. `sink` receives the body in the client's thread, and must live until `done` is
  // called. `done` is called exactly once: in the client's thread, or in the calling one if the
  // client's cannot be started. It must not block, and may start more requests.
  using Done = std::function<void(RangeOutcome)>;
  void start(RangeRequest request, http::Sink& sink, Done done);
  // Ends the requests that are no longer wanted. Returns at once.
  void drop_unwanted();

 private:
  class Loop;
  const std::unique_ptr<Loop> loop_;
};

}  // namespace forebay::io::serve
