#include "cache/dataset_origins.h"

#include <algorithm>
#include <charconv>

namespace forebay::cache {

using base::MutexLock;

namespace {

// Decodes each "%2e" and the like once.
std::string decoded(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    uint8_t byte = 0;
    const std::string_view digits = text.substr(at + 1, 2);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    const bool is_encoded = text[at] == '%' && error == std::errc() && end == digits.data() + 2;
    out += is_encoded ? static_cast<char>(byte) : text[at];
    if (is_encoded) at += 2;
  }
  return out;
}

bool has_dots(std::string_view path) {
  while (!path.empty()) {
    const size_t end = std::min(path.find_first_of("/\\"), path.size());
    const std::string_view name = path.substr(0, end);
    if (name == "." || name == "..") return true;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return false;
}

// Whether a server, or a proxy on the way to it, could take the path for one of another folder: in
// some number of decodings it has a name "." or "..".
bool leads_elsewhere(std::string path) {
  for (;;) {
    if (has_dots(path)) return true;
    std::string next = decoded(path);
    if (next == path) return false;
    path = std::move(next);
  }
}

}  // namespace

void DatasetOrigins::add(const std::string& root, std::shared_ptr<const io::Origin> origin) {
  MutexLock lock(mutex_);
  origins_.emplace(root, std::move(origin));
}

void DatasetOrigins::remove(const std::string& root, const io::Origin& origin) {
  std::shared_ptr<const io::Origin> last;  // is destroyed after the lock is released
  MutexLock lock(mutex_);
  const auto [begin, end] = origins_.equal_range(root);
  const auto found =
      std::find_if(begin, end, [&](const auto& one) { return one.second.get() == &origin; });
  if (found == end) return;
  last = std::move(found->second);
  origins_.erase(found);
}

std::vector<std::string> DatasetOrigins::roots() const {
  MutexLock lock(mutex_);
  std::vector<std::string> roots;
  for (const auto& [root, origin] : origins_) {
    if (roots.empty() || roots.back() != root) roots.push_back(root);
  }
  return roots;
}

std::shared_ptr<const io::Origin> DatasetOrigins::find(const std::string& path) const {
  if (leads_elsewhere(path)) return nullptr;
  MutexLock lock(mutex_);
  for (const auto& [root, origin] : origins_) {
    if (path.starts_with(root) || path + "/" == root) return origin;
  }
  return nullptr;
}

}  // namespace forebay::cache
