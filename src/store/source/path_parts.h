// The names of files, as users write them beside data, in parts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forebay::store {

// The components of a file's name, without empty ones and ".". Windows' separators count too.
std::vector<std::string> components(std::string_view file_name);

// What stands after the last slash.
inline std::string_view last_component(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// Whether the path `whole` has further folders before the path `end`.
inline bool ends_with_path(std::string_view whole, std::string_view end) {
  return whole.size() > end.size() && whole.ends_with(end) &&
         whole[whole.size() - end.size() - 1] == '/';
}

}  // namespace forebay::store
