// Requests to RangeServers: one thread drives all connections, which are kept and used again.
// A request is sent again only where it was sent on a kept connection that turns out to be closed.
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
  int64_t connect_ns = 2'000'000'000;    // until a connection stands, with TLS
  // Servers show this certificate and want to see it. Null: plain HTTP.
  std::shared_ptr<const JobCertificate> job = {};
};

struct RangeRequest {
  std::string host = {};  // an IP address
  uint16_t port = 0;
  std::string target = {};                // percent-encoded
  std::vector<std::string> headers = {};  // "Name: value"
  std::optional<std::string> body = {};   // sent with POST; unset: it is a GET
  ReadOptions options = {};
  // The whole answer must be there so long after the request was given to a connection (kTimedOut).
  int64_t answer_ns = 3600'000'000'000;
  // Asked in the client's thread while the request waits for a connection: where it says no, the
  // request ends with kCancelled.
  std::function<bool()> may_send = [] { return true; };
  // Whether the request is still wanted: asked at any time, also because of drop_unwanted().
  std::function<bool()> wanted = [] { return true; };
};

// What a request came to.
struct RangeOutcome {
  // Ok where an answer came whole and the sink took it; else kUnavailable, kTruncated, kTimedOut,
  // kCancelled, kNoMemory or the sink's error. Answers with a code that the sink does not take
  // have its error.
  Status status = {};
  http::Head head = {};
  int64_t sent_ns = 0;  // when the request was given to a connection (monotonic_ns()); 0: never
};

// Any thread may call anything.
class RangeClient {
 public:
  explicit RangeClient(RangeClientOptions options);
  // Cancels what is in flight; each request is done before this returns.
  ~RangeClient();
  RangeClient(const RangeClient&) = delete;
  RangeClient& operator=(const RangeClient&) = delete;

  // Returns at once. `sink` takes the body in the client's thread and lives until `done` is called,
  // exactly once: in the client's thread, or in this one where the client's cannot begin. It must
  // not wait for anything, and may start more requests.
  using Done = std::function<void(RangeOutcome)>;
  void start(RangeRequest request, http::Sink& sink, Done done);
  // Ends the requests that are not wanted any more. Returns at once.
  void drop_unwanted();

 private:
  class Loop;
  const std::unique_ptr<Loop> loop_;
};

}  // namespace forebay::io::serve
