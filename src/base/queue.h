// A bounded queue between two stages. Any thread may call anything.
#pragma once

#include <deque>
#include <optional>

#include "base/mutex.h"

namespace forebay::base {

// push() waits for room, pop() for an item. After close(), push() refuses and pop() gives what
// is left, then nothing. Stopping a pipeline is: close upstream, drain, join.
template <class T>
class Queue {
 public:
  explicit Queue(size_t capacity) : capacity_(capacity) {}

  // False when the queue is closed; the item is dropped then.
  bool push(T item) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!closed_ && items_.size() >= capacity_) room_.wait(mutex_);
    if (closed_) return false;
    items_.push_back(std::move(item));
    filled_.notify_one();
    return true;
  }

  std::optional<T> pop() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!closed_ && items_.empty()) filled_.wait(mutex_);
    if (items_.empty()) return std::nullopt;
    T item = std::move(items_.front());
    items_.pop_front();
    room_.notify_one();
    return item;
  }

  void close() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    closed_ = true;
    room_.notify_all();
    filled_.notify_all();
  }

 private:
  const size_t capacity_;
  Mutex mutex_;
  CondVar room_;
  CondVar filled_;
  std::deque<T> items_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace forebay::base
