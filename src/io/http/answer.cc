#include "io/http/answer.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>

#include "base/limits.h"

namespace forebay::io::http {

std::string_view Head::header(std::string_view name) const {
  const auto found = std::ranges::find(
      headers, name, [](const auto& header) -> std::string_view { return header.first; });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

Identity identity_of(const Head& head) {
  Identity identity{.etag = std::string(head.header("etag"))};
  // A weak tag may stay the same although bytes differ.
  if (identity.etag.starts_with("W/")) identity.etag.clear();
  const std::string_view length = head.header("content-length");
  std::from_chars(length.data(), length.data() + length.size(), identity.size);
  const std::string modified(head.header("last-modified"));
  const time_t seconds = modified.empty() ? -1 : curl_getdate(modified.c_str(), nullptr);
  if (seconds > 0 && seconds < base::kUnixSecondsMax)
    identity.modified_ns = int64_t{seconds} * 1'000'000'000;
  return identity;
}

}  // namespace forebay::io::http
