// Waits for all parts of a read, which may end in any threads.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "io/origin.h"

namespace forebay::cache {

using base::Status;

// Calls `done` once, when all parts of a read have ended, with the first error and the ranges that
// did not come, in ascending order.
class Joint {
 public:
  using Ranges = std::vector<io::Range>;

  Joint(size_t parts, std::function<void(Status, Ranges)> done)
      : left_(parts), done_(std::move(done)) {}
  void finish(Status status, const Ranges& rest = {}) EXCLUDES(mutex_) {
    Ranges all;
    {
      base::MutexLock lock(mutex_);
      if (first_.ok()) first_ = std::move(status);
      rest_.insert(rest_.end(), rest.begin(), rest.end());
      if (--left_ > 0) return;
      status = first_;
      all = std::move(rest_);
    }
    std::ranges::sort(all, {}, &io::Range::offset);
    done_(std::move(status), std::move(all));
  }

 private:
  base::Mutex mutex_;
  size_t left_ GUARDED_BY(mutex_);
  Status first_ GUARDED_BY(mutex_);
  Ranges rest_ GUARDED_BY(mutex_);
  const std::function<void(Status, Ranges)> done_;
};

}  // namespace forebay::cache
