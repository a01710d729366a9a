#include "base/crew.h"

#include <system_error>

namespace forebay::base {

const char* NoThread::what() const noexcept {
  return "cannot start another thread: the limit of processes (ulimit -u, pids.max) or of "
         "memory is reached";
}

Crew::~Crew() {
  wait();
  {
    MutexLock lock(mutex_);
    ended_ = true;
    begin_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void Crew::reserve(uint32_t count) {
  wait();
  // New threads wait for the next round, so that no work runs if one of them cannot be started.
  while (threads_.size() < count) {
    const auto number = static_cast<uint32_t>(threads_.size());
    try {
      threads_.emplace_back([this, number] { run(number); });
    } catch (const std::system_error&) {
      throw NoThread();
    }
  }
}

void Crew::start(uint32_t count, std::function<void(uint32_t)> work) {
  reserve(count);
  MutexLock lock(mutex_);
  work_ = std::move(work);
  ++round_;
  wanted_ = working_ = count;
  begin_.notify_all();
}

void Crew::wait() {
  MutexLock lock(mutex_);
  while (working_ > 0) done_.wait(mutex_);
}

void Crew::run(uint32_t number) {
  MutexLock lock(mutex_);
  uint64_t seen = 0;
  for (;;) {
    while (!ended_ && (round_ == seen || number >= wanted_)) begin_.wait(mutex_);
    if (ended_) return;
    seen = round_;
    const std::function<void(uint32_t)> work = work_;
    mutex_.unlock();
    work(number);
    mutex_.lock();
    if (--working_ == 0) done_.notify_all();
  }
}

}  // namespace forebay::base
