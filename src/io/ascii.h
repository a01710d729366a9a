// Functions for ASCII text, which do not depend on the process's locale.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace forebay::io {

inline std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// Whether the text has no blanks, control characters or bytes beyond ASCII, so that it can stand in
// a header or a URL. True for an empty text.
inline bool is_visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

// Whether the text has only letters, digits and the given marks. True for an empty text.
inline bool is_made_of_letters_and(std::string_view marks, std::string_view text) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           marks.find(c) != std::string_view::npos;
  });
}

// The text without blanks and line ends at its end: trimmed_end(); at both ends: trimmed().
inline std::string_view trimmed_end(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}
inline std::string_view trimmed(std::string_view text) {
  return trimmed_end(text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size())));
}

}  // namespace forebay::io
