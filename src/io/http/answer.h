// What a web server answers, piece by piece, and who takes it. Plain logic without sockets, so that
// a fuzzer can stand in for the server.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/origin.h"

namespace forebay::io::http {

// An answer's status and headers.
struct Head {
  int code = 0;                                                   // 200, 206, 404, …
  std::vector<std::pair<std::string, std::string>> headers = {};  // names in lower case
  // The first header of that name, given in lower case; empty where there is none.
  std::string_view header(std::string_view name) const;
};

// A date of HTTP's form, in nanoseconds since 1970; empty where it is malformed or makes no sense.
std::optional<int64_t> date_ns(std::string_view text);

// What a head says of the file: the size by Content-Length (0 where it is missing), Last-Modified,
// ETag. The Content-Length of an answer with a part of the file is that of the part.
Identity identity_of(const Head& head);

// What a server says, fit for a message: valid UTF-8 without control characters, and no more than
// the first kMessageTextBytesMax bytes.
std::string printable(std::string_view text);

// Takes an answer's body. One thread at a time. An error ends the transfer and is its outcome.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual Status begin(const Head& head) = 0;
  virtual Status append(Bytes bytes) = 0;
  // The whole body has come.
  virtual Status end() = 0;
  // Whether the rest of the body is of no use, so that the transfer may be cut.
  virtual bool has_enough() const { return false; }
};

}  // namespace forebay::io::http
