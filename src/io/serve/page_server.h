// A web server for a few small pages, which a program makes when they are asked for: figures for
// people and for monitoring. It only gives, so that nothing in a request can change anything.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::io::serve {

using base::Result;

struct Page {
  std::string type;  // such as "text/html; charset=utf-8"
  std::string body;
  std::string policy = "default-src 'none'";  // what a browser may do with it (CSP)
};

// How a policy names a script or a style that stands in the page: "'sha256-…'" of its text.
std::string policy_hash(std::string_view text);

// Makes the page of a path, such as "/metrics"; nothing where there is none. The server's thread
// calls it, and it must not wait for others.
using Pages = std::function<std::optional<Page>(const std::string& path)>;

// One thread, which works in the background, serves a few connections at once, each for a limited
// time. Any thread may call anything.
class PageServer {
 public:
  // Port 0: any that is free. `pages` is called until the server's end. Errors: kInvalid where the
  // address is no number; kUnavailable where the address or the port cannot be had; kNoMemory.
  static Result<std::unique_ptr<PageServer>> start(const std::string& address, uint16_t port,
                                                   Pages pages);
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
