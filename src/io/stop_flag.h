// A stop that a signal handler asks for. The handler may do no more than set a flag, and a flag
// wakes nobody; reads that are waited for end by a std::stop_token (ReadOptions::stop).
#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

#include "base/mutex.h"

namespace forebay::io {

// Any thread may call anything.
class StopFlag {
 public:
  // Some twenty times a second a thread looks whether `flag` is set. It may be null, and outlives
  // this.
  explicit StopFlag(const std::atomic<bool>* flag);
  ~StopFlag();
  StopFlag(const StopFlag&) = delete;
  StopFlag& operator=(const StopFlag&) = delete;

  // Asks for the stop without the flag.
  void request() { source_.request_stop(); }
  bool is_requested() const { return source_.stop_requested() || is_set(); }
  // Whether the flag is set.
  bool is_set() const { return flag_ != nullptr && *flag_; }
  // Its stop is requested soon after the flag was set.
  std::stop_token token() const { return source_.get_token(); }

 private:
  void watch() EXCLUDES(mutex_);

  const std::atomic<bool>* const flag_;
  std::stop_source source_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool ended_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace forebay::io
