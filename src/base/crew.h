// Threads that are kept from one piece of work to the next, as threads are expensive to begin.
#pragma once

#include <functional>
#include <new>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace forebay::base {

// The system gives no more threads. Whoever bears a lack of memory bears it too.
class NoThread final : public std::bad_alloc {
 public:
  const char* what() const noexcept override;
};

// One thread calls everything here.
class Crew {
 public:
  Crew() = default;
  // Waits for the work that was started last, and ends the threads.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Begins threads, so that start() with so many finds them. Throws NoThread; what was begun stays.
  void reserve(uint32_t count);
  // Calls work(0) to work(count - 1), each in a thread of its own, and returns at once. Begins
  // threads only where there are fewer. Waits for earlier work first. Throws NoThread, and calls
  // nothing then.
  void start(uint32_t count, std::function<void(uint32_t)> work) EXCLUDES(mutex_);
  // Waits until the work that was started last has returned from all threads.
  void wait() EXCLUDES(mutex_);

 private:
  void run(uint32_t number) EXCLUDES(mutex_);

  Mutex mutex_;
  CondVar begin_;  // the threads wait for work
  CondVar done_;   // callers wait for the threads
  std::function<void(uint32_t)> work_ GUARDED_BY(mutex_);
  uint64_t round_ GUARDED_BY(mutex_) = 0;    // the number of the work, from 1
  uint32_t wanted_ GUARDED_BY(mutex_) = 0;   // threads that the work is for
  uint32_t working_ GUARDED_BY(mutex_) = 0;  // threads that have not finished the work
  bool ended_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace forebay::base
