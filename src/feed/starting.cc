#include "feed/starting.h"

#include <new>
#include <utility>

#include "io/clock.h"

namespace forebay::feed {

using base::MutexLock;

Starting::Starting(SharedFeed& feed, FeedState state, std::shared_ptr<const SampleList> list)
    : feed_(feed), state_(std::move(state)), list_(std::move(list)) {
  starter_.start(1, [this](uint32_t) {
    auto turn = start();
    MutexLock lock(mutex_);
    outcome_ = std::move(turn);
    changed_.notify_all();
  });
}

Result<SharedFeed::Turn> Starting::start() {
  try {
    return feed_.start(state_, list_, stop_.get_token());
  } catch (const base::NoThread& error) {
    return base::fail(base::Code::kNoMemory, "feed: {}", error.what());
  } catch (const std::bad_alloc&) {
    return base::fail(base::Code::kNoMemory, "feed: no memory for the order of epoch {}",
                      state_.epoch);
  }
}

std::optional<Result<SharedFeed::Turn>> Starting::wait_ms(int ms) {
  const io::Clock& clock = io::monotonic_clock();
  const int64_t deadline_ns = clock.now_ns() + ms * int64_t{1'000'000};
  MutexLock lock(mutex_);
  while (!outcome_ && clock.wait_until(mutex_, changed_, deadline_ns)) {
  }
  return outcome_;
}

}  // namespace forebay::feed
