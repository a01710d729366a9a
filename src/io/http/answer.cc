#include "io/http/answer.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>

#include "base/limits.h"
#include "base/utf8.h"

namespace forebay::io::http {

std::string_view Head::header(std::string_view name) const {
  const auto found = std::ranges::find(
      headers, name, [](const auto& header) -> std::string_view { return header.first; });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::optional<int64_t> date_ns(std::string_view text) {
  const std::string date(text);
  const time_t seconds = date.empty() ? -1 : curl_getdate(date.c_str(), nullptr);
  if (seconds <= 0 || seconds >= base::kUnixSecondsMax) return std::nullopt;
  return int64_t{seconds} * 1'000'000'000;
}

Identity identity_of(const Head& head) {
  Identity identity{.etag = std::string(head.header("etag"))};
  // A weak tag may stay the same although bytes differ.
  if (identity.etag.starts_with("W/")) identity.etag.clear();
  const std::string_view length = head.header("content-length");
  std::from_chars(length.data(), length.data() + length.size(), identity.size);
  identity.modified_ns = date_ns(head.header("last-modified")).value_or(0);
  return identity;
}

Status check_not_encoded(const Head& head) {
  const std::string_view encoding = head.header("content-encoding");
  if (encoding.empty() || encoding == "identity") return {};
  const std::string via = printable(head.header("via"));
  return base::fail(
      base::Code::kIo,
      "the file comes compressed or encoded in another way (Content-Encoding: {}), although only "
      "its own bytes were asked for (Accept-Encoding: identity); the server does this, or a proxy "
      "or CDN in front of it{}: turn compression off there for this file",
      printable(encoding), via.empty() ? "" : fmt::format(" (Via: {})", via));
}

std::string printable(std::string_view text) {
  const bool is_long = text.size() > base::kMessageTextBytesMax;
  if (is_long) {
    size_t end = base::kMessageTextBytesMax;
    while (end > 0 && (text[end] & 0xc0) == 0x80) --end;  // no character is cut
    text = text.substr(0, end);
  }
  std::string out = base::to_utf8(text);
  for (size_t i = 0; i < out.size(); ++i) {
    const bool is_c1 = out[i] == '\xc2' && static_cast<uint8_t>(out[i + 1]) < 0xa0;
    if (is_c1) out.erase(i, 1);
    if (is_c1 || static_cast<uint8_t>(out[i]) < ' ' || out[i] == '\x7f') out[i] = ' ';
  }
  return is_long ? out + "…" : out;
}

}  // namespace forebay::io::http
