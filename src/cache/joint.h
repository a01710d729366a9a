// What waits for all parts of a read, which are done in any threads.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "io/origin.h"

namespace forebay::cache {

using base::Status;

// Calls `done` once, when all parts of a read are done, with the first error.
class Joint {
 public:
  Joint(size_t parts, std::function<void(Status)> done) : left_(parts), done_(std::move(done)) {}
  void finish(Status status) EXCLUDES(mutex_) {
    {
      base::MutexLock lock(mutex_);
      if (first_.ok()) first_ = std::move(status);
      if (--left_ > 0) return;
      status = first_;
    }
    done_(std::move(status));
  }

 private:
  base::Mutex mutex_;
  size_t left_ GUARDED_BY(mutex_);
  Status first_ GUARDED_BY(mutex_);
  const std::function<void(Status)> done_;
};

// Calls `done` once, when all parts of a question are answered, with what is left of them.
class Rests {
 public:
  Rests(size_t parts, std::function<void(std::vector<io::Range>)> done)
      : left_(parts), done_(std::move(done)) {}
  void add(std::vector<io::Range> rest) EXCLUDES(mutex_) {
    {
      base::MutexLock lock(mutex_);
      all_.insert(all_.end(), rest.begin(), rest.end());
      if (--left_ > 0) return;
      rest = std::move(all_);
    }
    std::ranges::sort(rest, {}, &io::Range::offset);
    done_(std::move(rest));
  }

 private:
  base::Mutex mutex_;
  size_t left_ GUARDED_BY(mutex_);
  std::vector<io::Range> all_ GUARDED_BY(mutex_);
  const std::function<void(std::vector<io::Range>)> done_;
};

}  // namespace forebay::cache
