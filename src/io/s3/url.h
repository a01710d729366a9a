// The parts of a URL, as libcurl reads them. Messages never repeat the URL: it may hold a password.
#pragma once

#include <string>

#include "base/status.h"

namespace forebay::io::s3 {

struct Url {
  std::string text;    // without a slash at its end
  std::string scheme;  // "http" or "https"
  std::string host;    // in lower case, an IPv6 address in brackets
};

// Reads a URL of HTTP or HTTPS. Errors: kInvalid, also for a URL with a user or a fragment, and for
// one with a query unless `with_query`. `where` names what holds the URL.
base::Result<Url> parse_url(const std::string& text, std::string_view where,
                            bool with_query = false);

// Whether a host is this machine by its name or its address.
bool is_loopback(std::string_view host);

}  // namespace forebay::io::s3
