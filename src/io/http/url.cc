#include "io/http/url.h"

#include <curl/curl.h>

#include <memory>

#include "io/ascii.h"

namespace forebay::io::http {

using base::Code;
using base::fail;

namespace {

constexpr std::string_view kUnreserved =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

template <class Keep>
std::string encode(std::string_view text, Keep keep) {
  std::string out;
  out.reserve(3 * text.size());  // so that no reallocation leaves a copy of a secret behind
  for (const char c : text) {
    if (keep(c)) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

using Handle = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

// A part of the URL; empty if the URL does not have it.
std::string part_of(const Handle& url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, 0) != CURLUE_OK) return "";
  const std::unique_ptr<char, decltype(&curl_free)> owner(text, &curl_free);
  return text;
}

bool is_unreserved(char c) { return kUnreserved.find(c) != std::string_view::npos; }

}  // namespace

std::string encode_path(std::string_view path) {
  return encode(path, [](char c) { return c == '/' || is_unreserved(c); });
}

std::string encode_value(std::string_view value) { return encode(value, is_unreserved); }

std::string encode_illegal(std::string_view url) {
  constexpr std::string_view kIllegal = "<>\"{}|\\^`";
  return encode(url, [&](char c) {
    return c > ' ' && c < 127 && kIllegal.find(c) == std::string_view::npos;
  });
}

Result<UrlParts> split_url(std::string_view url) {
  const size_t colon = url.find("://");
  const size_t begin = colon == std::string_view::npos ? 0 : colon + 3;
  const size_t slash = std::min(url.find('/', begin), url.size());
  const size_t at = url.substr(0, slash).rfind('@');
  const bool has_user = at != std::string_view::npos && at >= begin;
  const size_t host = has_user ? at + 1 : begin;
  if (begin == 0 || colon == 0) {
    return fail(Code::kInvalid, "{}: an address begins with a scheme, like https://",
                url.substr(host));
  }
  if (slash == host) {
    return fail(Code::kInvalid, "{}{}: the address names no host", url.substr(0, begin),
                url.substr(host));
  }
  return UrlParts{.scheme = url.substr(0, colon),
                  .user = has_user ? url.substr(begin, at - begin) : std::string_view(),
                  .host = url.substr(host, slash - host),
                  .path = url.substr(slash)};
}

Result<Url> parse_url(const std::string& text, std::string_view where, bool with_query) {
  const Handle handle(curl_url(), &curl_url_cleanup);
  if (!handle) return fail(Code::kNoMemory, "no memory to read the URL of {}", where);
  const CURLUcode code = is_visible(text)
                             ? curl_url_set(handle.get(), CURLUPART_URL, text.c_str(), 0)
                             : CURLUE_MALFORMED_INPUT;
  Url url{.text = text,
          .scheme = part_of(handle, CURLUPART_SCHEME),
          .host = lower(part_of(handle, CURLUPART_HOST))};
  if (code != CURLUE_OK || (url.scheme != "http" && url.scheme != "https") || url.host.empty()) {
    return fail(Code::kInvalid, "{} must be a URL like https://host or http://host:port", where);
  }
  const bool with_user =
      !part_of(handle, CURLUPART_USER).empty() || !part_of(handle, CURLUPART_PASSWORD).empty();
  if (with_user || !part_of(handle, CURLUPART_FRAGMENT).empty() ||
      (!with_query && !part_of(handle, CURLUPART_QUERY).empty())) {
    return fail(Code::kInvalid, "{} must be a URL without a user, a password{} and a fragment",
                where, with_query ? "" : ", a query");
  }
  while (url.text.ends_with('/')) url.text.pop_back();
  return url;
}

std::string without_user(std::string_view text) {
  constexpr std::string_view kEnds = " \t\r\n'\"<>()";
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(kEnds), text.size());
    const std::string_view word = text.substr(0, end);
    const size_t at = word.rfind('@');
    const size_t scheme = word.find("://");
    const size_t user = scheme < at && scheme != std::string_view::npos ? scheme + 3 : 0;
    out += at == std::string_view::npos ? word : word.substr(0, user);
    if (at != std::string_view::npos) out += word.substr(at + 1);
    out += text.substr(end, 1);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string without_query(std::string_view url) {
  return without_user(url.substr(0, url.find_first_of("?#")));
}

bool is_loopback(std::string_view host) {
  // Only a whole address counts: a name like "127.evil.example" is another machine.
  const bool address = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "[::1]" || (address && host.starts_with("127."));
}

}  // namespace forebay::io::http
