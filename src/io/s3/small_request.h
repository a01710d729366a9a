// Small questions to the services that give out credentials, in words of their own: secret headers
// and forms, a time limit for each try, an answer that is secret. The calling thread waits.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/secret.h"

namespace forebay::io::s3 {

struct SmallRequest {
  std::string method = "GET";  // GET, PUT without a body, or POST of a form
  std::string url = {};
  std::vector<Secret> headers = {};  // "Name: value"
  Secret form = {};                  // already escaped
  std::string ca_file = {};          // empty: the system's certificates
  bool through_proxy = false;        // whether the usual variables for proxies count
  int64_t timeout_ms = 1000;         // of each try, from its first to its last byte
  int tries = 1;                     // after a failed connection, or a status of 500 or more
};

struct SmallAnswer {
  int status = 0;  // any HTTP status; redirects are not followed
  Secret body = {};
  std::optional<int64_t> date_ns = {};  // the sender's wall clock, where it says so
};

// Errors: kUnavailable when nobody could be reached or the connection failed, kTimedOut, kCancelled
// within about a second after stop was requested (both come later where a name server is silent:
// the resolution of a host's name has its own time limits), kTooBig for a body of more than
// kCredentialAnswerBytesMax. Messages hold neither headers nor bodies, and the URL without its
// query.
base::Result<SmallAnswer> ask(const SmallRequest& request, const std::stop_token& stop);

// The text as a value of a form: all but letters, digits, "-", ".", "_" and "~" is escaped.
Secret form_value(std::string_view text);

}  // namespace forebay::io::s3
