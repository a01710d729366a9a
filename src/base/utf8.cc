#include "base/utf8.h"

#include <fmt/format.h>

#include <cstdint>

namespace forebay::base {
namespace {

// Returns the length in bytes of the character that begins at `i`, or 0 when none does.
size_t length_at(std::string_view text, size_t i) {
  const auto byte = [&](size_t at) {
    return at < text.size() ? static_cast<uint8_t>(text[at]) : 0;
  };
  const int first = byte(i);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  const int low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const int high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(i + 1) < low || byte(i + 1) > high) return 0;
  for (size_t k = 2; k <= more; ++k) {
    if (byte(i + k) < 0x80 || byte(i + k) > 0xbf) return 0;
  }
  return more + 1;
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = length_at(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

std::string to_utf8(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = length_at(text, i);
    if (length == 0) {
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[i]));
    } else {
      out += text.substr(i, length);
    }
    i += length == 0 ? 1 : length;
  }
  return out;
}

}  // namespace forebay::base
