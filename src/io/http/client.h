// An asynchronous HTTP client. One thread drives all connections, which are kept and used again
// (decision 0012). libcurl does signing, TLS and redirects. The client repeats no request: its
// callers decide that (retry.h, range_read.h). After an answer 429 or 503, fewer requests run at
// once for a while (budget.h).
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
  std::shared_ptr<const void> owner;  // of the memory that the views show
  uint64_t fetches;                   // how many fetches of new keys had ended by then
};

struct Request {
  std::string method = "GET";
  std::string url = {};                   // percent-encoded
  std::vector<std::string> headers = {};  // "Name: value"
  std::vector<Secret> secret_headers = {};
  // Sent one after the other. Their memory must stay until the request is done.
  std::vector<Bytes> body = {};
  std::string body_sha256 = {};  // hexadecimal, for the signature; empty: the body is not signed
  std::optional<Signing> signing = {};
  std::string region = {};  // where the object is believed to be; part of the signature
  ReadOptions options = {};
  int64_t begin_ns = 0;  // the request is not sent before this time of io::monotonic_ns()
  // The range read that the request belongs to. Reads take turns; questions, which belong to none,
  // go first (turns.h).
  const void* reader = nullptr;
  // Repeats a request that is slow: it is sent at once, on another connection.
  bool is_hedge = false;
  // Asks for a new connection. After a timeout, the old connection may still be open and never
  // answer.
  bool new_connection = false;
  bool redirects = true;      // whether redirects are followed; never for signed requests
  bool through_proxy = true;  // whether the usual environment variables for proxies count
  // The client's thread calls these. If `wanted` returns false, the request ends with kCancelled
  // and its sink gets no more bytes. The client calls it before it sends the request, before each
  // piece of the body, and after drop_unwanted().
  std::function<bool()> wanted = {};
  // Called once if the request is much slower than other recent ones, and the server has not asked
  // for fewer requests.
  std::function<void()> on_slow = {};
};

// How a request ended.
struct Outcome {
  // Ok if a whole answer came and the sink took it, whatever its HTTP code. Else kUnavailable (the
  // server could not be reached or hung up), kTruncated (it hung up within a body), kTimedOut,
  // kCancelled (also if the request was no longer wanted), kInvalid (malformed URL), kIo (a
  // certificate was refused, or too many redirects), kNoMemory (also if no thread could be
  // started), or the sink's error.
  Status status = {};
  Head head = {};
  uint64_t bytes_received = 0;  // with headers, as far as libcurl counts them
  uint64_t bytes_sent = 0;
  int64_t sent_ns = 0;        // when the request was sent, on the clock of monotonic_ns(); 0: never
  int64_t first_byte_ns = 0;  // when its answer began; 0: never
  int64_t end_ns = 0;
};

struct ClientOptions {
  uint32_t requests_max = 64;           // in flight; the others wait for their turns
  int64_t connect_ns = 10'000'000'000;  // to establish a connection
  // A transfer that moves fewer than kHttpSlowBytes a second over this time is given up
  // (kTimedOut).
  int64_t stall_ns = 15'000'000'000;
  std::string ca_file = {};  // certificates to trust; empty: the system's
};

// Any thread may call anything.
class Client {
 public:
  // It must not block.
  using Done = std::function<void(Outcome)>;

  explicit Client(const ClientOptions& options);
  // Cancels all requests. `done` of each is called before this returns.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Returns at once. `sink` receives the body in the client's thread, and must live until `done` is
  // called. `done` is called exactly once: in the client's thread, or in the calling one if the
  // client's cannot be started. It may start more requests. If memory is short for a request or its
  // sink, the request fails; `done` and `on_slow` must not throw.
  void start(Request request, Sink& sink, Done done);
  // Sends a request and waits for its outcome. Must not be called in the client's thread.
  Outcome perform(Request request, Sink& sink);
  // Ends the requests that are no longer wanted. Returns at once.
  void drop_unwanted();
  const Link& link() const;

 private:
  class Driver;
  const std::unique_ptr<Driver> driver_;
};

}  // namespace forebay::io::http
