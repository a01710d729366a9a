// An epoch in motion: batches of prepared samples, whose order and randomness depend only on the
// dataset's content, the seed, the epoch and the options. This is the folder's interface; README.md
// shows what is inside.
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
  // wait_ms() waits by `clock`, which must outlive the feed. Errors: kInvalid for options that make
  // no sense, naming the option.
  static Result<std::unique_ptr<Feed>> open(std::shared_ptr<const store::Dataset> dataset,
                                            const FeedOptions& options,
                                            const io::Clock& clock = io::monotonic_clock());
  virtual ~Feed() = default;

  // Steps in the epoch that was started last, the same on every rank.
  virtual uint64_t steps() const = 0;
  // Begins, or begins again, at `state`; work in flight is dropped, and the threads are kept. The
  // epoch has the samples of `list`, or of FeedOptions::order if `list` is null. Over a network
  // this may wait until the samples' locations are loaded; `stop` ends that wait. Errors: kInvalid
  // when no step begins at the position, or when the list does not suit the dataset or the options;
  // kCancelled after a stop; those of reading.
  virtual Status start(const FeedState& state, std::shared_ptr<const SampleList> list,
                       const std::stop_token& stop) = 0;
  Status start(const FeedState& state, std::shared_ptr<const SampleList> list = nullptr) {
    return start(state, std::move(list), {});
  }
  // Waits at most `ms` milliseconds for the next batch. Returns whether next() would return it
  // without waiting.
  virtual bool wait_ms(int ms) = 0;
  // Returns the next batch; null at the epoch's end. While the last batches of an epoch are
  // consumed, the next epoch is already being prepared (FeedOptions::next_epoch), so that its
  // start() continues without a pause. After an error the same batch can be asked for again.
  virtual Result<std::shared_ptr<const Batch>> next() = 0;
  // The feed's state after the batch that next() returned last.
  virtual FeedState state() const = 0;
  virtual FeedStats stats() const = 0;
  // Records what the feed's threads and the consumer do. It is off at first.
  virtual Trace& trace() = 0;
};

}  // namespace forebay::feed
