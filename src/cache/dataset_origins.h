// Where this process's datasets come from: which origin reads a file for other members of the job.
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
  // Files whose paths begin with `root`, or are `root` without its slash, come from this origin, or
  // from another one with the same root.
  void add(const std::string& root, std::shared_ptr<const io::Origin> origin) EXCLUDES(mutex_);
  // Ends what add() of the same arguments began, once.
  void remove(const std::string& root, const io::Origin& origin) EXCLUDES(mutex_);
  std::vector<std::string> roots() const EXCLUDES(mutex_);
  // Null for a path of no dataset.
  std::shared_ptr<const io::Origin> find(const std::string& path) const EXCLUDES(mutex_);

 private:
  mutable base::Mutex mutex_;
  std::multimap<std::string, std::shared_ptr<const io::Origin>> origins_ GUARDED_BY(mutex_);
};

}  // namespace forebay::cache
