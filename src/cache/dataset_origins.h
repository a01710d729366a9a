// The origins of this process's datasets, by path: they read files for other members of the job.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "io/origin.h"

namespace forebay::cache {

// Any thread may call anything.
class DatasetOrigins {
 public:
  // From now on files whose paths begin with `root`, or equal `root` without its slash, are read
  // from this origin, or from another one that was added with the same root.
  void add(const std::string& root, std::shared_ptr<const io::Origin> origin) EXCLUDES(mutex_);
  // Undoes one add() with the same arguments.
  void remove(const std::string& root, const io::Origin& origin) EXCLUDES(mutex_);
  std::vector<std::string> roots() const EXCLUDES(mutex_);
  // The origin that reads a path; null if it belongs to no dataset.
  std::shared_ptr<const io::Origin> find(const std::string& path) const EXCLUDES(mutex_);

 private:
  mutable base::Mutex mutex_;
  std::multimap<std::string, std::shared_ptr<const io::Origin>> origins_ GUARDED_BY(mutex_);
};

}  // namespace forebay::cache
