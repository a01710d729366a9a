// Steps that the host prepares out of turn, beside its feed: steps that did not come in time, and
// steps of a prep server that are compared.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/crew.h"
#include "base/mutex.h"
#include "feed/step_maker.h"
#include "io/clock.h"
#include "prep/policy/policy.h"

namespace forebay::prep {

// Whether two batches and their bad samples are equal.
bool are_equal(const feed::Prepared& one, const feed::Prepared& other);

// Any thread may call anything.
class RemadeSteps {
 public:
  // Why a step is prepared.
  struct Reason {
    std::optional<uint32_t> checks = {};  // the server whose batch is compared
    feed::Prepared received = {};         // that batch
    bool is_rescue = false;               // the step is given to the consumer
  };
  struct Remade {
    uint64_t begun = 0;  // what begin() returned last before the step was asked for
    StepNumber step = 0;
    Reason reason;
    base::Result<feed::Prepared> batch;  // errors: those of feed::MadeStep
  };

  // `options`: those of the host's feed, which was opened with them. Calls `take` for each step, in
  // a thread of its own, without holding a lock.
  RemadeSteps(std::shared_ptr<const store::Dataset> dataset, const feed::FeedOptions& options,
              const io::Clock& clock, std::function<void(Remade)> take);
  // Waits for calls of `take`, which may still call want().
  ~RemadeSteps();
  RemadeSteps(const RemadeSteps&) = delete;
  RemadeSteps& operator=(const RemadeSteps&) = delete;

  // Drops all steps that were asked for. From now on epochs have `steps_each` steps and these
  // samples; null: those of the options, as for feed::StepMaker::begin(). Returns a number that is
  // different each time.
  uint64_t begin(uint64_t steps_each, std::shared_ptr<const feed::SampleList> samples)
      EXCLUDES(mutex_);
  // Asks for a step. A step that is asked for twice is prepared once, for both reasons.
  void want(StepNumber step, Reason reason) EXCLUDES(mutex_);

 private:
  void ask() EXCLUDES(mutex_);
  void ask_maker() EXCLUDES(mutex_);
  void work() EXCLUDES(mutex_);
  void pass_on(feed::MadeStep made) EXCLUDES(mutex_);

  const std::shared_ptr<const store::Dataset> dataset_;
  const feed::FeedOptions options_;
  const io::Clock& clock_;
  const std::function<void(Remade)> take_;

  base::Mutex mutex_;
  base::CondVar wanted_;  // ask() waits on it
  base::CondVar freed_;   // work() waits on it
  bool ended_ GUARDED_BY(mutex_) = false;
  uint64_t begun_ GUARDED_BY(mutex_) = 0;
  uint64_t steps_each_ GUARDED_BY(mutex_) = 1;
  std::shared_ptr<const feed::SampleList> samples_ GUARDED_BY(mutex_);
  std::map<StepNumber, Reason> reasons_ GUARDED_BY(mutex_);
  std::vector<StepNumber> to_ask_ GUARDED_BY(mutex_);  // ask() passes them to maker_
  // The list that maker_->begin() got last, and the number that it returned.
  std::shared_ptr<const feed::SampleList> maker_samples_ GUARDED_BY(mutex_);
  uint64_t maker_begun_ GUARDED_BY(mutex_) = 0;
  std::unique_ptr<feed::StepMaker>
      maker_;  // ask() opens it when a step is wanted for the first time
  base::Crew worker_;
  base::Crew asker_;
};

}  // namespace forebay::prep
