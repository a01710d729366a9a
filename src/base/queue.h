// A bounded queue between two stages. The producer calls close() at the end; consumers then take
// the remaining items and learn that there are no more.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace forebay::base {

// Any thread may call anything. Items come out in the order in which they went in.
template <class T>
class Queue {
 public:
  // Holds at most `capacity` items, at least 1.
  explicit Queue(size_t capacity) : capacity_(capacity) {}

  // Waits for room. False when the queue was closed; the item is dropped then.
  bool push(T item) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!closed_ && items_.size() >= capacity_) room_.wait(mutex_);
    if (closed_) return false;
    items_.push_back(std::move(item));
    filled_.notify_one();
    return true;
  }
  // Does not wait: false also when there is no room.
  bool try_push(T item) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (closed_ || items_.size() >= capacity_) return false;
    items_.push_back(std::move(item));
    filled_.notify_one();
    return true;
  }
  // Waits for an item. Empty when the queue is closed and nothing is left in it.
  std::optional<T> pop() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!closed_ && items_.empty()) filled_.wait(mutex_);
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    room_.notify_one();
    return item;
  }
  // Ends every wait. Items in the queue can still be taken.
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
