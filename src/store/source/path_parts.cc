#include "store/source/path_parts.h"

#include <algorithm>

namespace forebay::store {

std::vector<std::string> components(std::string_view file_name) {
  std::string name(file_name);
  std::ranges::replace(name, '\\', '/');
  std::vector<std::string> out;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    std::string part = name.substr(begin, end - begin);
    if (!part.empty() && part != ".") out.push_back(std::move(part));
    begin = end + 1;
  }
  return out;
}

}  // namespace forebay::store
