// URLs: splitting, checking and percent-encoding them (RFC 3986).
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::io::http {

using base::Result;

// Encodes every byte except letters, digits, "-", ".", "_", "~" and "/", as S3's signatures need
// it.
std::string encode_path(std::string_view path);
// Like encode_path(), but encodes "/" too: for values in a query.
std::string encode_value(std::string_view value);
// Encodes only bytes that no URL may have (blanks, control characters, bytes above 127,
// "<>\"{}|\\^`"), so that a URL that is already encoded stays as it is.
std::string encode_illegal(std::string_view url);

// Splits a URL and leaves its bytes as they are, unlike libcurl's parser, because the path of an
// object may have any bytes and an "s3://" URL has no query. "https://user:word@host:1/a" gives
// "https", "user:word", "host:1", "/a". kInvalid without a scheme or a host; the message does not
// repeat the user.
struct UrlParts {
  std::string_view scheme;
  std::string_view user;  // with the password; empty if there is none
  std::string_view host;  // with the port
  std::string_view path;
};
Result<UrlParts> split_url(std::string_view url);

// The address of a service, as libcurl reads it.
struct Url {
  std::string text;    // without a slash at its end
  std::string scheme;  // "http" or "https"
  std::string host;    // in lower case, without the port; an IPv6 address in brackets
};
// Reads the address of a service that speaks HTTP or HTTPS. Errors: kInvalid, also for a URL with a
// user or a fragment, and for one with a query unless `with_query`. `where` names what holds the
// URL; messages do not repeat the URL, because it may hold a password.
Result<Url> parse_url(const std::string& text, std::string_view where, bool with_query = false);

// The text without users and passwords: in each word with an "@", what stands before it, after the
// scheme if there is one. For messages of others, who may repeat a URL.
std::string without_user(std::string_view text);

// The URL up to its query or fragment, without a user. For messages: a query may hold a signature.
std::string without_query(std::string_view url);

// Whether a host's name or address is a loopback one.
bool is_loopback(std::string_view host);

}  // namespace forebay::io::http
