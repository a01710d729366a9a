// Turns a flag into a std::stop_token. A signal handler may do no more than set a flag, but a flag
// does not end reads in progress; a stop token does (ReadOptions::stop).
#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

#include "base/mutex.h"

namespace forebay::io {

// Any thread may call anything.
class StopFlag {
 public:
  // A thread checks about twenty times a second whether `flag` is set. The flag may be null, and
  // must outlive this.
  explicit StopFlag(const std::atomic<bool>* flag);
  ~StopFlag();
  StopFlag(const StopFlag&) = delete;
  StopFlag& operator=(const StopFlag&) = delete;

  // Requests the stop without the flag.
  void request() { source_.request_stop(); }
  bool is_requested() const { return source_.stop_requested() || is_set(); }
  // Whether the flag is set.
  bool is_set() const { return flag_ != nullptr && *flag_; }
  // A token whose stop is requested soon after the flag was set.
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
