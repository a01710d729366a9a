// Whether bytes are UTF-8, and what to show of those that are not.
#pragma once

#include <string>
#include <string_view>

namespace forebay::base {

// Well-formed UTF-8 without surrogates: Unicode 15, table 3-7.
bool is_utf8(std::string_view text);
// The text where it is; what is none as \xNN.
std::string to_utf8(std::string_view text);

}  // namespace forebay::base
