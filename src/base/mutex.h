// A mutex whose use clang checks at compile time (-Wthread-safety); std::mutex carries no marks.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define FOREBAY_ANNOTATE(x) __attribute__((x))
#else
#define FOREBAY_ANNOTATE(x)
#endif
#define GUARDED_BY(mutex) FOREBAY_ANNOTATE(guarded_by(mutex))
#define REQUIRES(mutex) FOREBAY_ANNOTATE(requires_capability(mutex))
#define EXCLUDES(mutex) FOREBAY_ANNOTATE(locks_excluded(mutex))

namespace forebay::base {

class FOREBAY_ANNOTATE(capability("mutex")) Mutex {
 public:
  void lock() FOREBAY_ANNOTATE(acquire_capability()) { mutex_.lock(); }
  void unlock() FOREBAY_ANNOTATE(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class FOREBAY_ANNOTATE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) FOREBAY_ANNOTATE(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() FOREBAY_ANNOTATE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// wait() is called with the mutex held, in a loop that checks its condition.
class CondVar {
 public:
  void wait(Mutex& mutex) REQUIRES(mutex) { condition_.wait(mutex); }
  // False when nobody notified in that time.
  bool wait_ms(Mutex& mutex, int ms) REQUIRES(mutex) {
    return condition_.wait_for(mutex, std::chrono::milliseconds(ms)) == std::cv_status::no_timeout;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable_any condition_;
};

}  // namespace forebay::base
