// Checks whether bytes are UTF-8, and makes other bytes printable.
#pragma once

#include <string>
#include <string_view>

namespace forebay::base {

// Whether the text is well-formed UTF-8 without surrogates (Unicode 15, table 3-7).
bool is_utf8(std::string_view text);
// Returns the text with every byte that is not part of UTF-8 written as \xNN.
std::string to_utf8(std::string_view text);

}  // namespace forebay::base
