// Starts an epoch in a thread of its own, so that the caller can stop waiting for it.
#pragma once

#include <optional>

#include "base/crew.h"
#include "feed/shared_feed.h"

namespace forebay::feed {

// One thread calls everything.
class Starting {
 public:
  // Calls SharedFeed::start(). The feed must outlive this.
  Starting(SharedFeed& feed, FeedState state, std::shared_ptr<const SampleList> list);
  // Stops a start that is still in progress, and waits for its end.
  ~Starting() { stop_.request_stop(); }
  Starting(const Starting&) = delete;
  Starting& operator=(const Starting&) = delete;

  // Waits at most `ms` milliseconds until the start has succeeded or failed. Returns nothing if
  // neither has happened yet. Errors: those of SharedFeed::start(); kNoMemory.
  std::optional<Result<SharedFeed::Turn>> wait_ms(int ms) EXCLUDES(mutex_);

 private:
  Result<SharedFeed::Turn> start();

  SharedFeed& feed_;
  const FeedState state_;
  const std::shared_ptr<const SampleList> list_;
  std::stop_source stop_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::optional<Result<SharedFeed::Turn>> outcome_ GUARDED_BY(mutex_);
  base::Crew starter_;  // ends first, because its thread uses all of the above
};

}  // namespace forebay::feed
