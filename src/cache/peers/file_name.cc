#include "cache/peers/file_name.h"

#include <charconv>

#include "io/http/url.h"

namespace forebay::cache {

using base::Code;
using base::fail;
using base::Result;

namespace {

int digit_of(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return -1;
}

// Malformed text needs no check here: it does not give the same text when it is encoded again.
std::string decode_value(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%' || i + 2 >= text.size()) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(digit_of(text[i + 1]) * 16 + digit_of(text[i + 2]));
    i += 2;
  }
  return out;
}

// Removes `name`, which ends with "=", and its value up to the next "&" from the beginning of
// `text`; returns the value.
std::string_view take_value(std::string_view& text, std::string_view name) {
  if (!text.starts_with(name)) return {};
  text.remove_prefix(name.size());
  const std::string_view value = text.substr(0, text.find('&'));
  text.remove_prefix(std::min(text.size(), value.size() + 1));
  return value;
}

template <class Number>
Number number_of(std::string_view text) {
  Number number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string encode_target(const FileName& name) {
  return fmt::format("/{}?size={}&modified={}&etag={}", io::http::encode_value(name.path),
                     name.identity.size, name.identity.modified_ns,
                     io::http::encode_value(name.identity.etag));
}

Result<FileName> decode_target(const std::string& target) {
  const size_t query = target.find('?');
  FileName name;
  if (query != std::string::npos && query > 0) {
    name.path = decode_value(std::string_view(target).substr(1, query - 1));
    std::string_view rest = std::string_view(target).substr(query + 1);
    name.identity.size = number_of<uint64_t>(take_value(rest, "size="));
    name.identity.modified_ns = number_of<int64_t>(take_value(rest, "modified="));
    name.identity.etag = decode_value(take_value(rest, "etag="));
  }
  if (encode_target(name) == target) return name;
  return fail(Code::kInvalid, "not the name of a file");
}

}  // namespace forebay::cache
