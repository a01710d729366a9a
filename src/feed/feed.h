// An epoch in motion: batches of prepared samples, whose order and randomness depend on nothing
// but the dataset's content, the seed, the epoch and the options. This is the face of the folder;
// README.md shows what is inside.
#pragma once

#include <memory>
#include <stop_token>
#include <utility>

#include "feed/batch/batch.h"
#include "feed/batch/options.h"
#include "feed/batch/state.h"
#include "feed/batch/stats.h"
#include "feed/batch/trace.h"
#include "io/clock.h"
#include "store/dataset.h"

namespace forebay::feed {

// One consumer thread calls everything except stats() and trace(), which any thread may call.
class Feed {
 public:
  // `clock` is what wait_ms() waits by; it outlives the feed. Errors: kInvalid for options that
  // make no sense, each named.
  static Result<std::unique_ptr<Feed>> open(std::shared_ptr<const store::Dataset> dataset,
                                            const FeedOptions& options,
                                            const io::Clock& clock = io::monotonic_clock());
  virtual ~Feed() = default;

  // Steps in the epoch that was started last, the same on every rank.
  virtual uint64_t steps() const = 0;
  // Begins (again) at `state`; work in flight is dropped, and the threads are kept. The epoch has
  // the samples of `list`; where that is null, those that FeedOptions::order says. Over a network
  // this may wait until it is known where samples lie; `stop` ends that wait. Errors: kInvalid when
  // no step begins at the position, or when the list does not suit the dataset or the options;
  // kCancelled after a stop, and those of reading.
  virtual Status start(const FeedState& state, std::shared_ptr<const SampleList> list,
                       const std::stop_token& stop) = 0;
  Status start(const FeedState& state, std::shared_ptr<const SampleList> list = nullptr) {
    return start(state, std::move(list), {});
  }
  // Waits at most `ms` milliseconds until next() would not wait; false when it still would.
  virtual bool wait_ms(int ms) = 0;
  // The next batch; null at the epoch's end. While the last batches of an epoch are consumed the
  // next epoch is prepared already (FeedOptions::next_epoch), and start() of that epoch goes on
  // without a pause. After an error the same batch can be asked for again.
  virtual Result<std::shared_ptr<const Batch>> next() = 0;
  // Where the feed stands after the batch that next() returned last.
  virtual FeedState state() const = 0;
  virtual FeedStats stats() const = 0;
  // Records what the feed's threads and the consumer do; off at first.
  virtual Trace& trace() = 0;
};

}  // namespace forebay::feed
