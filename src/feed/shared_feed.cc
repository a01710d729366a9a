#include "feed/shared_feed.h"

namespace forebay::feed {

using base::Code;
using base::fail;
using base::MutexLock;

Status SharedFeed::check(Turn turn) const {
  if (!is_over(turn)) return {};
  return fail(Code::kCancelled, "feed: this epoch was ended by a newer one");
}

Result<SharedFeed::Turn> SharedFeed::start(const FeedState& state,
                                           std::shared_ptr<const SampleList> list,
                                           const std::stop_token& stop) {
  // Counted before the lock is taken, so that a thread that holds it while waiting releases it.
  const Turn turn = ++turn_;
  MutexLock lock(mutex_);
  // If a newer start() got the lock first, its turn is the one that counts.
  if (!is_over(turn)) RETURN_IF_ERROR(feed_->start(state, std::move(list), stop));
  return turn;
}

void SharedFeed::end(Turn turn) { turn_.compare_exchange_strong(turn, turn + 1); }

Result<bool> SharedFeed::wait_ms(Turn turn, int ms) {
  RETURN_IF_ERROR(check(turn));
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(check(turn));
  return feed_->wait_ms(ms);
}

Result<Taken> SharedFeed::next(Turn turn) {
  RETURN_IF_ERROR(check(turn));
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(check(turn));
  ASSIGN_OR_RETURN(auto batch, feed_->next());
  return Taken{std::move(batch), feed_->state()};
}

}  // namespace forebay::feed
