#include "store/source/sample_finder.h"

#include <algorithm>

#include "io/ascii.h"
#include "store/source/path_parts.h"
#include "store/source/source.h"

namespace forebay::store {
namespace {

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : "/") + part;
  return out;
}

std::string without_suffix(const std::string& path) {
  const std::string_view base = last_component(path);
  return path.substr(0, path.size() - base.size()) + std::string(split_extension(base).first);
}

std::vector<std::string> without_suffixes(std::vector<std::string> paths) {
  for (std::string& path : paths) path = without_suffix(path);
  return paths;
}

// Returns the key that an image of this name has in a folder source; empty if the name is empty.
std::string key_of(std::vector<std::string> parts) {
  if (!parts.empty()) parts.back() = escape_stem(split_extension(parts.back()).first);
  return escape_key(joined(parts));
}

}  // namespace

SampleFinder::Names::Names(std::vector<std::string> names) : names_(std::move(names)) {
  for (uint64_t i = 0; i < names_.size(); ++i) {
    whole_[names_[i]] = i;
    by_end_.emplace(last_component(names_[i]), i);
  }
}

std::optional<uint64_t> SampleFinder::Names::whole(const std::string& name) const {
  const auto found = whole_.find(name);
  return found == whole_.end() ? std::nullopt : std::optional(found->second);
}

SampleFinder::Match SampleFinder::Names::match(std::string_view name) const {
  if (const auto found = whole_.find(name); found != whole_.end()) return {found->second};
  Match out;
  const auto [begin, end] = by_end_.equal_range(last_component(name));
  for (auto at = begin; at != end; ++at) {
    const std::string& other = names_[at->second];
    if (!ends_with_path(other, name) && !ends_with_path(name, other)) continue;
    if (out.sample) return {.sample = std::nullopt, .fits_several = true};
    out.sample = at->second;
  }
  return out;
}

SampleFinder::SampleFinder(std::vector<std::string> keys, std::vector<std::string> paths)
    : keys_(std::move(keys)), paths_(paths), stems_(without_suffixes(std::move(paths))) {}

SampleFinder::Match SampleFinder::match(std::string_view file_name) const {
  const std::vector<std::string> parts = components(file_name);
  if (parts.empty()) return {};
  const std::string name = joined(parts);
  if (const auto found = keys_.whole(name)) return {found};
  for (const Names* const names : {&paths_, &stems_}) {
    const Match found = names->match(name);
    if (found.sample || found.fits_several) return found;
  }
  const bool is_image = is_image_extension(io::lower(split_extension(parts.back()).second));
  return is_image || paths_.is_empty() ? keys_.match(key_of(parts)) : Match();
}

}  // namespace forebay::store
