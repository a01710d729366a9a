#include "io/http/url.h"

namespace forebay::io::http {

namespace {

constexpr std::string_view kUnreserved =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

template <class Keep>
std::string encode(std::string_view text, Keep keep) {
  std::string out;
  for (const char c : text) {
    if (keep(c)) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
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
  if (colon == std::string_view::npos || colon == 0) {
    return base::fail(base::Code::kInvalid, "{}: an address begins with a scheme, like https://",
                      url);
  }
  const std::string_view rest = url.substr(colon + 3);
  const size_t slash = std::min(rest.find('/'), rest.size());
  if (slash == 0) return base::fail(base::Code::kInvalid, "{}: the address names no host", url);
  return UrlParts{url.substr(0, colon), rest.substr(0, slash), rest.substr(slash)};
}

}  // namespace forebay::io::http
