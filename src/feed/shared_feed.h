// A feed that several threads may use: whoever starts an epoch ends the one before it, also while
// another thread waits for a batch of that one.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "feed/feed.h"

namespace forebay::feed {

// A batch, and where the feed stands after it.
struct Taken {
  std::shared_ptr<const Batch> batch;  // null at the epoch's end
  std::string state;                   // encode_state()
  size_t bad_samples = 0;              // that the state lists
};

// Any thread may call anything.
class SharedFeed {
 public:
  // Names what one start() began.
  using Turn = uint64_t;

  explicit SharedFeed(std::unique_ptr<Feed> feed) : feed_(std::move(feed)) {}

  // Begins at `state` and ends every earlier turn; a call that waits for a batch of one gives way
  // within its `ms`. Errors: as Feed::start().
  Result<Turn> start(const FeedState& state) EXCLUDES(mutex_);
  // Ends this turn, if it is not over yet.
  void end(Turn turn);
  bool is_over(Turn turn) const { return turn_ != turn; }

  // Waits for what next() would wait for, at most that long; false when it is not there yet.
  // kCancelled when the turn is over.
  Result<bool> wait_ms(Turn turn, int ms) EXCLUDES(mutex_);
  // The turn's next batch. Call it after wait_ms() gave true: it holds up other threads while it
  // waits. kCancelled when the turn is over; else as Feed::next().
  Result<Taken> next(Turn turn) EXCLUDES(mutex_);

  FeedStats stats() const { return feed_->stats(); }
  Trace& trace() { return feed_->trace(); }

 private:
  Status check(Turn turn) const;

  std::atomic<Turn> turn_ = 0;
  base::Mutex mutex_;                 // held by the one thread that uses the feed as its consumer
  const std::unique_ptr<Feed> feed_;  // stats() and trace() need no lock
};

}  // namespace forebay::feed
