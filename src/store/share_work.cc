#include "store/share_work.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "io/machine.h"

namespace forebay::store {

using base::Code;
using base::fail;

namespace {

class Sharing {
 public:
  Sharing(uint64_t count, uint64_t step, const Share& share)
      : count_(count), step_(step), share_(share) {}

  Status run(size_t threads) {
    const uint64_t useful = std::min<uint64_t>(threads, (count_ + step_ - 1) / step_);
    std::vector<std::thread> others;
    for (size_t thread = 1; thread < useful; ++thread) {
      try {
        others.emplace_back([this, thread] { work(thread); });
      } catch (const std::system_error&) {
        break;  // no more can be had: fewer are slower
      }
    }
    work(0);
    for (std::thread& other : others) other.join();
    base::MutexLock lock(mutex_);
    return error_;
  }

 private:
  void work(size_t thread) {
    for (uint64_t at = next_.fetch_add(step_); at < count_; at = next_.fetch_add(step_)) {
      Status status;
      try {
        status = share_(at, std::min(at + step_, count_), thread);
      } catch (const std::bad_alloc&) {
        status = fail(Code::kNoMemory, "no memory; give fewer --threads");
      }
      if (status.ok()) continue;
      next_ = count_;  // the others end too
      base::MutexLock lock(mutex_);
      if (error_.ok()) error_ = std::move(status);
    }
  }

  const uint64_t count_;
  const uint64_t step_;
  const Share& share_;
  std::atomic<uint64_t> next_ = 0;
  base::Mutex mutex_;
  Status error_ GUARDED_BY(mutex_);
};

}  // namespace

size_t threads_for(int threads) {
  return static_cast<size_t>(threads > 0 ? threads : io::usable_cores());
}

Status share_work(uint64_t count, uint64_t step, size_t threads, const Share& share) {
  return Sharing(count, step, share).run(threads);
}

}  // namespace forebay::store
