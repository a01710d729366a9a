#include "base/crew.h"

namespace forebay::base {

Crew::~Crew() {
  wait();
  {
    MutexLock lock(mutex_);
    ended_ = true;
    begin_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void Crew::start(uint32_t count, std::function<void(uint32_t)> work) {
  wait();
  // Threads that begin here wait for the next round, so that nothing runs where one cannot begin.
  while (threads_.size() < count) {
    threads_.emplace_back([this, number = static_cast<uint32_t>(threads_.size())] { run(number); });
  }
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
