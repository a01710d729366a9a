#include "io/s3/url.h"

#include <curl/curl.h>

#include <memory>

#include "io/s3/ascii.h"

namespace forebay::io::s3 {

using base::Code;
using base::fail;

namespace {

using Handle = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

// A part of the URL; empty where it has none.
std::string part_of(const Handle& url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, 0) != CURLUE_OK) return "";
  const std::unique_ptr<char, decltype(&curl_free)> owner(text, &curl_free);
  return text;
}

}  // namespace

base::Result<Url> parse_url(const std::string& text, std::string_view where, bool with_query) {
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

bool is_loopback(std::string_view host) {
  // Only a whole address counts: a name like "127.evil.example" is another machine.
  const bool address = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "[::1]" || (address && host.starts_with("127."));
}

}  // namespace forebay::io::s3
