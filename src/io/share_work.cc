#include "io/share_work.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "io/machine.h"

namespace forebay::io {

using base::Code;
using base::fail;

namespace {

class Sharing {
 public:
  Sharing(uint64_t count, uint64_t step, const RangeWork& work)
      : count_(count), step_(step), work_(work) {}

  Status run(size_t threads) {
    const uint64_t useful = std::min<uint64_t>(threads, (count_ + step_ - 1) / step_);
    std::vector<std::thread> others;
    for (size_t thread = 1; thread < useful; ++thread) {
      try {
        others.emplace_back([this, thread] { work_on(thread); });
      } catch (const std::system_error&) {
        break;  // the system cannot start more threads; fewer do the same work
      }
    }
    work_on(0);
    for (std::thread& other : others) other.join();
    base::MutexLock lock(mutex_);
    return error_;
  }

 private:
  void work_on(size_t thread) {
    for (uint64_t at = next_.fetch_add(step_); at < count_; at = next_.fetch_add(step_)) {
      Status status;
      try {
        status = work_(at, std::min(at + step_, count_), thread);
      } catch (const std::bad_alloc&) {
        status = fail(Code::kNoMemory, "no memory; give fewer --threads");
      }
      if (status.ok()) continue;
      next_ = count_;  // lets the other threads end too
      base::MutexLock lock(mutex_);
      if (error_.ok()) error_ = std::move(status);
    }
  }

  const uint64_t count_;
  const uint64_t step_;
  const RangeWork& work_;
  std::atomic<uint64_t> next_ = 0;
  base::Mutex mutex_;
  Status error_ GUARDED_BY(mutex_);
};

}  // namespace

size_t threads_for(int threads) {
  return static_cast<size_t>(threads > 0 ? threads : io::usable_cores());
}

Status share_work(uint64_t count, uint64_t step, size_t threads, const RangeWork& work) {
  return Sharing(count, step, work).run(threads);
}

}  // namespace forebay::io
