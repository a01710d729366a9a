// An HTTP server on loopback whose answers a test decides. It takes one request after the other; a
// delayed answer does not delay others.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace forebay::io {

struct HeardRequest {
  std::string method;
  std::string target;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

struct Reply {
  int status = 200;
  std::string body = {};
  std::string headers = {};  // whole lines, each with its line end
  int delay_ms = 0;          // before the first byte, or before the rest of the body
  size_t before_delay = 0;   // bytes of the body that are sent before the delay
  bool cut = false;          // announces one byte more than it sends
  bool says_length = true;   // false: no Content-Length, the end of the connection is the end
};

class HttpListener {
 public:
  // Listens on a free port; `answer` is called in the listener's thread.
  explicit HttpListener(std::function<Reply(const HeardRequest&)> answer);
  // Ends delays that are under way.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  // "http://127.0.0.1:PORT".
  const std::string& url() const { return url_; }
  std::vector<HeardRequest> heard() const;

 private:
  void run();
  // Takes a request, and closes the connection when it is answered.
  void serve(int connection);
  std::optional<HeardRequest> take_request(int connection) const;
  void answer(int connection, const Reply& reply) const;
  bool wait_readable(int descriptor, int timeout_ms) const;

  const std::function<Reply(const HeardRequest&)> answer_;
  int listening_ = -1;
  int ended_ = -1;  // an eventfd
  std::string url_;
  mutable base::Mutex mutex_;
  std::vector<HeardRequest> heard_ GUARDED_BY(mutex_);
  std::vector<std::thread> delayed_;  // of the listener's thread
  std::thread thread_;
};

}  // namespace forebay::io
