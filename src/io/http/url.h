// Addresses: which parts a URL has, and which bytes must be percent-encoded (RFC 3986).
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::io::http {

using base::Result;

// Encodes every byte except letters, digits, "-", ".", "_", "~" and "/", as S3's signatures need
// it.
std::string encode_path(std::string_view path);
// The same with "/" encoded too: for values in a query.
std::string encode_value(std::string_view value);
// Encodes only bytes that no URL may have (blanks, control characters, bytes above 127,
// "<>\"{}|\\^`"), so that what is encoded already stays as it is.
std::string encode_illegal(std::string_view url);

// "https://host:1/a" gives "https", "host:1", "/a". kInvalid without a scheme or a host.
struct UrlParts {
  std::string_view scheme;
  std::string_view host;  // with the port
  std::string_view path;
};
Result<UrlParts> split_url(std::string_view url);

}  // namespace forebay::io::http
