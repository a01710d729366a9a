// A web server's answer: its head, and the receiver of its body. Plain logic without sockets, so
// that a fuzzer can take the server's place.
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
  std::string url = {};  // where it came from, after redirects; without a query
  // The first header with this name, which is in lower case; empty if there is none.
  std::string_view header(std::string_view name) const;
};

// Parses a date in HTTP's format to nanoseconds since 1970. Nothing if it is malformed or out of
// range.
std::optional<int64_t> date_ns(std::string_view text);

// The file's identity by an answer's head: Content-Length as its size (0 if it is missing),
// Last-Modified and ETag. In an answer with a part of the file, Content-Length is the size of the
// part.
Identity identity_of(const Head& head);

// Whether the answer's body is the bytes of the file. Errors: kIo if they are compressed or encoded
// in another way.
Status check_not_encoded(const Head& head);

// A server's text, made fit for a message: valid UTF-8 without control characters, and no more than
// the first kMessageTextBytesMax bytes.
std::string printable(std::string_view text);

// Receives an answer. One thread at a time. An error ends the transfer and becomes its outcome.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual Status begin(const Head& head) = 0;
  virtual Status append(Bytes bytes) = 0;
  // The whole body has been received.
  virtual Status end() = 0;
  // Whether the rest of the body is not needed, so that the transfer may be cut.
  virtual bool has_enough() const { return false; }
};

}  // namespace forebay::io::http
