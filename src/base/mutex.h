// A mutex whose use clang checks at compile time (-Wthread-safety); std::mutex carries no marks.
#pragma once

#include <pthread.h>

#include <ctime>
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
  friend class CondVar;
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

// wait() is called with the mutex held, in a loop that checks its condition. POSIX's own, as
// libstdc++'s has a symbol of g++ 12, the one thing that would keep wheels from glibc 2.34.
class CondVar {
 public:
  CondVar() = default;
  ~CondVar() { pthread_cond_destroy(&condition_); }
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;
  void wait(Mutex& mutex) REQUIRES(mutex) {
    pthread_cond_wait(&condition_, mutex.mutex_.native_handle());
  }
  // False when nobody notified in that time.
  bool wait_ms(Mutex& mutex, int ms) REQUIRES(mutex) {
    constexpr long kNsMax = 1'000'000'000;
    timespec until{};
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1'000'000L;
    until.tv_sec += until.tv_nsec / kNsMax;
    until.tv_nsec %= kNsMax;
    return pthread_cond_clockwait(&condition_, mutex.mutex_.native_handle(), CLOCK_MONOTONIC,
                                  &until) == 0;
  }
  void notify_one() { pthread_cond_signal(&condition_); }
  void notify_all() { pthread_cond_broadcast(&condition_); }

 private:
  pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
};

}  // namespace forebay::base
