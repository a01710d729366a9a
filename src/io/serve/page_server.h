// A web server for a few small pages with figures, for people and for monitoring. The program makes
// a page when it is requested. Nothing in a request can change anything.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace forebay::io::serve {

using base::Result;

struct Page {
  std::string type;  // such as "text/html; charset=utf-8"
  std::string body;
  std::string policy = "default-src 'none'";  // what a browser may do with it (CSP)
};

// How a policy names a script or a style inside the page: "'sha256-…'" of its text.
std::string policy_hash(std::string_view text);

// Makes the page for a path, such as "/metrics"; nothing if there is none. The server's thread
// calls it, so it must not block.
using Pages = std::function<std::optional<Page>(const std::string& path)>;

struct PageServerOptions {
  std::string address = "127.0.0.1";  // an IP address
  uint16_t port = 0;                  // 0: any free port
  // Names of this machine by which requests may address it, beside IP addresses and localhost.
  std::vector<std::string> names = {};
  // What a request must have as ?token=… or as "Authorization: Bearer …". Empty: nothing.
  std::string token = {};
};

// One thread, which works in the background, serves a few connections at once, each for a limited
// time. Any thread may call anything.
class PageServer {
 public:
  // `pages` is called until the server ends. Errors: kInvalid if the address is not an IP address;
  // kUnavailable if the server cannot listen there; kNoMemory.
  static Result<std::unique_ptr<PageServer>> start(const PageServerOptions& options, Pages pages);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  uint16_t port() const;

 private:
  class Loop;
  explicit PageServer(std::unique_ptr<Loop> loop);
  const std::unique_ptr<Loop> loop_;
};

}  // namespace forebay::io::serve
