// Prepares single steps of any epochs, in the order in which somebody asks for them. Of the dataset
// it reads only what these steps need. The batches are those of a Feed with the same options.
#pragma once

#include <memory>

#include "feed/batch/options.h"
#include "feed/batch/prepared.h"
#include "store/dataset.h"

namespace forebay::feed {

struct MadeStep {
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint64_t begun = 0;  // what StepMaker::begin() gave last before it was asked for; 0: nothing
  // Errors: those of Feed::next(), except kNoMemory because of batches that somebody holds.
  Result<Prepared> batch;
};

class StepMaker {
 public:
  // Errors: same as Feed::open().
  static Result<std::unique_ptr<StepMaker>> open(std::shared_ptr<const store::Dataset> dataset,
                                                 const FeedOptions& options);
  virtual ~StepMaker() = default;

  // Any thread may call these five.
  // From now on epochs have the samples of a list or, where it is null, of the options' order. What
  // was asked for before is dropped. Gives a number, which is another one each time. Errors: those
  // of check_list().
  virtual Result<uint64_t> begin(std::shared_ptr<const SampleList> list) = 0;
  // Steps of each epoch.
  virtual uint64_t steps() const = 0;
  // The step is below steps(), and the epoch below 2^32.
  virtual void ask(uint64_t epoch, uint64_t step) = 0;
  // The step is not wanted any more: unless it is in work already, next() will not give it.
  virtual void take_back(uint64_t epoch, uint64_t step) = 0;
  // next() gives kCancelled from now on.
  virtual void stop() = 0;

  // The next of the steps that were asked for; one thread calls it, and it waits for steps and for
  // the batch. Errors: kCancelled; kNoMemory because of batches that somebody holds, without which
  // the step can be had later.
  virtual Result<MadeStep> next() = 0;
};

}  // namespace forebay::feed
