#include "io/stop_flag.h"

#include <system_error>

#include "io/machine.h"

namespace forebay::io {

namespace {

constexpr int64_t kLookEveryNs = 50'000'000;

}  // namespace

StopFlag::StopFlag(const std::atomic<bool>* flag) : flag_(flag) {
  if (flag == nullptr) return;
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (const std::system_error&) {
    // The system cannot start another thread: reads in progress go on to their end.
  }
}

StopFlag::~StopFlag() {
  {
    base::MutexLock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void StopFlag::watch() {
  {
    base::MutexLock lock(mutex_);
    while (!ended_ && !is_set()) changed_.wait_until(mutex_, monotonic_ns() + kLookEveryNs);
  }
  if (is_set()) request();
}

}  // namespace forebay::io
