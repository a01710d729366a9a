#include "cache/dataset_origins.h"

#include <algorithm>

namespace forebay::cache {

using base::MutexLock;

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
  // A server on the way could take such a path for a different one.
  if (path.find("/.") != std::string::npos) return nullptr;
  MutexLock lock(mutex_);
  for (const auto& [root, origin] : origins_) {
    if (path.starts_with(root) || path + "/" == root) return origin;
  }
  return nullptr;
}

}  // namespace forebay::cache
