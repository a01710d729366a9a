// Small requests to the services that give out credentials: with secret headers and forms, a time
// limit for each try, and a secret answer. The calling thread waits.
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
  bool through_proxy = false;        // whether the usual environment variables for proxies count
  int64_t timeout_ms = 1000;         // of each try, from its first to its last byte
  // How often to try. A failed connection, a timeout and a status of 500 or more are tried again.
  int tries = 1;
};

struct SmallAnswer {
  int status = 0;  // any HTTP status; redirects are not followed
  Secret body = {};
  std::optional<int64_t> date_ns = {};  // the sender's wall clock, if the answer has a date
};

// Errors: kUnavailable if the server could not be reached or the connection failed, kTimedOut,
// kCancelled within about a second after stop was requested (both come later if a name server does
// not answer, because the resolution of a host's name has its own time limits), kTooBig for a body
// of more than kCredentialAnswerBytesMax. Messages hold neither headers nor bodies, and the URL
// without its query.
base::Result<SmallAnswer> ask(const SmallRequest& request, const std::stop_token& stop);

// The text as a value of a form: everything except letters, digits, "-", ".", "_" and "~" is
// escaped.
Secret form_value(std::string_view text);

}  // namespace forebay::io::s3
