// A thread pool. Its threads are kept between pieces of work, because starting a thread is
// expensive.
#pragma once

#include <functional>
#include <new>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace forebay::base {

// Thrown if the system cannot start another thread. Code that handles std::bad_alloc handles it
// too.
class NoThread final : public std::bad_alloc {
 public:
  const char* what() const noexcept override;
};

// One thread calls everything here.
class Crew {
 public:
  Crew() = default;
  // Waits for the current work, then ends the threads.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Starts threads until there are `count`, so that start() needs no new ones. Throws NoThread;
  // threads that have started stay.
  void reserve(uint32_t count);
  // Waits for earlier work, then calls work(0) to work(count - 1), each in a thread of its own, and
  // returns without waiting for them. Starts threads only if there are fewer than `count`. Throws
  // NoThread without calling `work`.
  void start(uint32_t count, std::function<void(uint32_t)> work) EXCLUDES(mutex_);
  // Waits until the current work has returned in all threads.
  void wait() EXCLUDES(mutex_);

 private:
  void run(uint32_t number) EXCLUDES(mutex_);

  Mutex mutex_;
  CondVar begin_;  // the threads wait for work
  CondVar done_;   // callers wait for the threads
  std::function<void(uint32_t)> work_ GUARDED_BY(mutex_);
  uint64_t round_ GUARDED_BY(mutex_) = 0;    // counts the calls of start()
  uint32_t wanted_ GUARDED_BY(mutex_) = 0;   // threads that take part in the current work
  uint32_t working_ GUARDED_BY(mutex_) = 0;  // threads that have not finished it
  bool ended_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace forebay::base
