// A mutex and a condition variable whose use clang checks at compile time (-Wthread-safety).
// std::mutex has no such annotations in libstdc++.
#pragma once

#include <pthread.h>

#include <cstdint>
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

// Call wait() with the mutex held, in a loop that checks the condition. This class uses POSIX
// directly because std::condition_variable of g++ 12 needs a symbol that systems with glibc 2.34
// may lack, and wheels must run there.
class CondVar {
 public:
  CondVar() = default;
  ~CondVar() { pthread_cond_destroy(&condition_); }
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;
  void wait(Mutex& mutex) REQUIRES(mutex) {
    pthread_cond_wait(&condition_, mutex.mutex_.native_handle());
  }
  // Like wait(), but returns false when the system's monotonic clock reaches `deadline_ns`. Callers
  // wait through io::Clock.
  bool wait_until(Mutex& mutex, int64_t deadline_ns) REQUIRES(mutex) {
    constexpr int64_t kNsPerSecond = 1'000'000'000;
    const timespec deadline{.tv_sec = static_cast<time_t>(deadline_ns / kNsPerSecond),
                            .tv_nsec = static_cast<long>(deadline_ns % kNsPerSecond)};
    return pthread_cond_clockwait(&condition_, mutex.mutex_.native_handle(), CLOCK_MONOTONIC,
                                  &deadline) == 0;
  }
  void notify_one() { pthread_cond_signal(&condition_); }
  void notify_all() { pthread_cond_broadcast(&condition_); }

 private:
  pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
};

}  // namespace forebay::base
