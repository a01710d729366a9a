// Gathers the results of several parts of one task, which end in any threads.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "io/origin.h"

namespace forebay::cache {

using base::Status;

// Calls `done` once with the total when all parts have finished. Any thread may call finish().
template <class Total>
class Gather {
 public:
  Gather(size_t parts, Total total, std::function<void(Total)> done)
      : left_(parts), total_(std::move(total)), done_(std::move(done)) {}

  // One part has finished; `add` changes the total accordingly.
  template <class Add>
  void finish(const Add& add) EXCLUDES(mutex_) {
    Total total;
    {
      base::MutexLock lock(mutex_);
      add(total_);
      if (--left_ > 0) return;
      total = std::move(total_);
    }
    done_(std::move(total));
  }

 private:
  base::Mutex mutex_;
  size_t left_ GUARDED_BY(mutex_);
  Total total_ GUARDED_BY(mutex_);
  const std::function<void(Total)> done_;
};

// A read in parts: the first error, and in ascending order the ranges that were not read.
class ReadGather {
 public:
  using Ranges = std::vector<io::Range>;

  ReadGather(size_t parts, std::function<void(Status, Ranges)> done)
      : gather_(parts, {}, [done = std::move(done)](Read read) {
          std::ranges::sort(read.rest, {}, &io::Range::offset);
          done(std::move(read.status), std::move(read.rest));
        }) {}
  void finish(const Status& status, const Ranges& rest = {}) {
    gather_.finish([&](Read& read) {
      if (read.status.ok()) read.status = status;
      read.rest.insert(read.rest.end(), rest.begin(), rest.end());
    });
  }

 private:
  struct Read {
    Status status;
    Ranges rest;
  };
  Gather<Read> gather_;
};

}  // namespace forebay::cache
