// Prepares single steps of any epochs, in the order in which they are requested, and reads only
// what these steps need. The batches are the same as those of a Feed with the same options.
#pragma once

#include <memory>

#include "feed/batch/options.h"
#include "feed/batch/prepared.h"
#include "store/dataset.h"

namespace forebay::feed {

struct MadeStep {
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint64_t begun = 0;  // last number from begin() before the step was requested; 0: none
  // Errors: those of Feed::next(), except kNoMemory because of batches that somebody holds.
  Result<Prepared> batch;
};

class StepMaker {
 public:
  // Errors: same as Feed::open().
  static Result<std::unique_ptr<StepMaker>> open(std::shared_ptr<const store::Dataset> dataset,
                                                 const FeedOptions& options);
  virtual ~StepMaker() = default;

  // Any thread may call the five functions from here on. From now on epochs have the samples of
  // `list`, or of the options' order if it is null. Drops all earlier requests. Returns a number
  // that is different each time. Errors: those of check_list().
  virtual Result<uint64_t> begin(std::shared_ptr<const SampleList> list) = 0;
  // Steps of each epoch.
  virtual uint64_t steps() const = 0;
  // Slots of a batch, since the last begin().
  virtual uint64_t slots() const = 0;
  // Requests a step. `step` is below steps(), and `epoch` below 2^32.
  virtual void ask(uint64_t epoch, uint64_t step) = 0;
  // Withdraws a request: next() will not return the step, unless it is being prepared already.
  virtual void take_back(uint64_t epoch, uint64_t step) = 0;
  // From now on next() returns kCancelled.
  virtual void stop() = 0;

  // Waits for a requested step and for its batch, and returns them. One thread calls it. Errors:
  // kCancelled after stop(); kNoMemory if somebody holds too many batches: once these are released,
  // another call returns the step.
  virtual Result<MadeStep> next() = 0;
};

}  // namespace forebay::feed
