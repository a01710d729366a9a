#include "store/source/image_names.h"

#include <algorithm>

#include "store/source/source.h"

namespace forebay::store {
namespace {

// Returns the components of a file's name. Windows' separators count too.
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

// Returns the key that an image of this name has in a folder source; empty if the name is empty.
std::string key_of(std::string_view file_name) {
  const std::vector<std::string> parts = components(file_name);
  std::string key;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_last = i + 1 == parts.size();
    key += is_last ? escape_stem(split_extension(parts[i]).first) : parts[i] + "/";
  }
  return escape_key(std::move(key));
}

std::string_view last_component(std::string_view key) { return key.substr(key.rfind('/') + 1); }

bool ends_with_path(std::string_view whole, std::string_view end) {
  return whole.size() > end.size() && whole.ends_with(end) &&
         whole[whole.size() - end.size() - 1] == '/';
}

}  // namespace

ImageNames::ImageNames(std::vector<std::string> keys) : keys_(std::move(keys)) {
  for (uint64_t i = 0; i < keys_.size(); ++i) {
    whole_[keys_[i]] = i;
    by_end_.emplace(last_component(keys_[i]), i);
  }
}

std::optional<uint64_t> ImageNames::find(std::string_view file_name) const {
  const std::string key = key_of(file_name);
  if (const auto found = whole_.find(key); found != whole_.end()) return found->second;
  std::optional<uint64_t> out;
  const auto [begin, end] = by_end_.equal_range(last_component(key));
  for (auto at = begin; at != end; ++at) {
    const std::string& other = keys_[at->second];
    if (!ends_with_path(other, key) && !ends_with_path(key, other)) continue;
    if (out) return std::nullopt;
    out = at->second;
  }
  return out;
}

bool ImageNames::is_file_name(std::string_view file_name) { return !components(file_name).empty(); }

}  // namespace forebay::store
