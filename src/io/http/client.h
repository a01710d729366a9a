// HTTP requests in flight: one thread drives all connections, which are kept and used again
// (decision 0012). Signing, TLS and redirects are libcurl's. Nothing is tried twice here: that is
// decided above (retry.h, range_read.h). After an answer 429 or 503 fewer requests run at once for
// a while (budget.h).
#pragma once

#include <functional>
#include <memory>

#include "io/http/answer.h"
#include "io/http/link.h"
#include "io/secret.h"

namespace forebay::io::http {

// How S3 requests are signed (AWS signature version 4).
struct Signing {
  std::string_view access_key;
  std::string_view secret_key;
  std::string_view session_token;     // of temporary credentials; else empty
  std::shared_ptr<const void> owner;  // of what the views show
  uint64_t fetches;                   // how often keys had been fetched anew by then
};

struct Request {
  std::string method = "GET";
  std::string url = {};                   // percent-encoded
  std::vector<std::string> headers = {};  // "Name: value"
  std::vector<Secret> secret_headers = {};
  // Sent one after the other; their memory stays until the request is done.
  std::vector<Bytes> body = {};
  std::string body_sha256 = {};  // hexadecimal, for the signature; empty: the body is not signed
  std::optional<Signing> signing = {};
  std::string region = {};  // where S3 is believed to have it; part of a signature
  ReadOptions options = {};
  int64_t begin_ns = 0;  // on the clock of io::monotonic_ns(): it is not sent before
  // The range read that the request belongs to. Reads take turns; questions, which belong to none,
  // go first (turns.h).
  const void* reader = nullptr;
  // Repeats a request that is slow: it is sent at once, on another connection.
  bool is_hedge = false;
  // Asks for a new connection. After a time-out the old one may still stand and never answer.
  bool new_connection = false;
  bool redirects = true;      // whether redirects are followed; never for what is signed
  bool through_proxy = true;  // whether the usual variables for proxies count
  // The client's thread calls these. Where `wanted` says no, the request ends with kCancelled, and
  // its sink gets no more bytes; the client asks before it sends the request and before each piece
  // of the body, and after drop_unwanted().
  std::function<bool()> wanted = {};
  // Called once if the request is much slower than others lately, and the server has not asked for
  // fewer requests.
  std::function<void()> on_slow = {};
};

// What a request came to.
struct Outcome {
  // Ok where an answer came whole and the sink took it, whatever its code. Else kUnavailable where
  // the other side could not be reached or hung up, kTruncated where it hung up within a body,
  // kTimedOut, kCancelled (also where it was not wanted any more), kInvalid for a URL that makes no
  // sense, kIo for TLS's refusals and too many redirects, kNoMemory also where no thread can begin,
  // or the sink's error.
  Status status = {};
  Head head = {};
  uint64_t bytes_received = 0;  // with headers, as far as libcurl counts them
  uint64_t bytes_sent = 0;
  int64_t sent_ns = 0;        // when the request was begun, as monotonic_ns() counts; 0: never
  int64_t first_byte_ns = 0;  // when its answer began; 0: never
  int64_t end_ns = 0;
};

struct ClientOptions {
  uint32_t requests_max = 64;           // in flight; the others wait for their turns
  int64_t connect_ns = 10'000'000'000;  // until a connection stands
  // A transfer that moves fewer than kHttpSlowBytes a second over this time is given up
  // (kTimedOut).
  int64_t stall_ns = 15'000'000'000;
  std::string ca_file = {};  // certificates to trust; empty: the system's
};

// Any thread may call anything.
class Client {
 public:
  // It must not wait for anything.
  using Done = std::function<void(Outcome)>;

  explicit Client(const ClientOptions& options);
  // Cancels what is in flight; each request is done before this returns.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Returns at once. `sink` takes the body in the client's thread and lives until `done` is called,
  // exactly once: in the client's thread, or in this one where the client's cannot begin. `done`
  // may start more requests. Where memory is short for a request or its sink, it fails; the
  // caller's `done` and `on_slow` must not throw.
  void start(Request request, Sink& sink, Done done);
  // Waits for the outcome. Not to be called in the client's thread.
  Outcome perform(Request request, Sink& sink);
  // Ends the requests that are not wanted any more. Returns at once.
  void drop_unwanted();
  const Link& link() const;

 private:
  class Driver;
  const std::unique_ptr<Driver> driver_;
};

}  // namespace forebay::io::http
