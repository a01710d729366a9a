// A feed that several threads may use. Starting an epoch ends the epoch before it, even while
// another thread waits for a batch of the earlier epoch.
#pragma once

#include <atomic>
#include <memory>

#include "base/mutex.h"
#include "feed/feed.h"

namespace forebay::feed {

// A batch, and the feed's state after it.
struct Taken {
  std::shared_ptr<const Batch> batch;  // null at the epoch's end
  FeedState state;
};

// Any thread may call anything.
class SharedFeed {
 public:
  // Names the epoch that one call of start() began.
  using Turn = uint64_t;

  explicit SharedFeed(std::unique_ptr<Feed> feed) : feed_(std::move(feed)) {}

  // Begins at `state` and ends every earlier turn; a call that waits for a batch of an earlier turn
  // returns within its `ms` milliseconds. Same arguments and errors as Feed::start().
  Result<Turn> start(const FeedState& state, std::shared_ptr<const SampleList> list = nullptr,
                     const std::stop_token& stop = {}) EXCLUDES(mutex_);
  // Ends this turn, if it is not over yet.
  void end(Turn turn);
  bool is_over(Turn turn) const { return turn_ != turn; }

  // Waits at most `ms` milliseconds until next() would not wait; false when it still would. Errors:
  // kCancelled when the turn is over.
  Result<bool> wait_ms(Turn turn, int ms) EXCLUDES(mutex_);
  // The turn's next batch. Call it after wait_ms() returned true, because other threads wait while
  // it waits. Errors: kCancelled when the turn is over; those of Feed::next().
  Result<Taken> next(Turn turn) EXCLUDES(mutex_);

  FeedStats stats() const { return feed_->stats(); }
  Trace& trace() { return feed_->trace(); }

 private:
  Status check(Turn turn) const;

  std::atomic<Turn> turn_ = 0;
  base::Mutex mutex_;  // held by the thread that is the feed's consumer at the moment
  const std::unique_ptr<Feed> feed_;  // stats() and trace() need no lock
};

}  // namespace forebay::feed
