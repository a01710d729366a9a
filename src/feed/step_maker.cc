#include "feed/step_maker.h"

#include <deque>

#include "feed/pipeline.h"
#include "feed/pipeline_memory.h"

namespace forebay::feed {

using base::Code;
using base::fail;
using base::MutexLock;

namespace {

FeedOptions of_single_steps(FeedOptions options) {
  options.next_epoch = false;
  options.uncached = false;  // slices are not read around the page cache
  options.filter = nullptr;
  return options;
}

class StepMakerImpl final : public StepMaker {
 public:
  StepMakerImpl(std::shared_ptr<const store::Dataset> dataset, const FeedOptions& options)
      : dataset_(std::move(dataset)),
        options_(of_single_steps(options)),
        planner_(dataset_, options_, options_.order, Runs::kSteps),
        indexes_(*dataset_, options_.memory_bytes_max / kIndexShare) {}

  uint64_t steps() const override { return planner_.steps().count(); }
  void ask(uint64_t epoch, uint64_t step) override EXCLUDES(mutex_);
  void take_back(uint64_t epoch, uint64_t step) override EXCLUDES(mutex_);
  void stop() override EXCLUDES(mutex_);
  Result<MadeStep> next() override EXCLUDES(mutex_);

 private:
  // The walk of one pipeline.
  class Turn final : public Walk {
   public:
    explicit Turn(StepMakerImpl& maker) : maker_(maker) {}
    bool goes_on(const StepRun&) const override { return true; }
    std::optional<StepRun> next(const StepRun&) override { return maker_.take(&has_ended_); }
    void stop() override { maker_.end(&has_ended_); }

   private:
    StepMakerImpl& maker_;
    bool has_ended_ = false;  // guarded by the maker's mutex
  };

  std::optional<StepRun> take(const bool* turn_has_ended) EXCLUDES(mutex_);
  void end(bool* turn_has_ended) EXCLUDES(mutex_);
  Status begin() EXCLUDES(mutex_);
  StepRun end_turn() EXCLUDES(mutex_);

  const std::shared_ptr<const store::Dataset> dataset_;
  const FeedOptions options_;
  const Planner planner_;

  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::stop_source stop_;
  std::deque<StepRun> asked_ GUARDED_BY(mutex_);
  std::deque<StepRun> in_work_ GUARDED_BY(mutex_);  // the pipeline has them

  Trace trace_;
  ChunkIndexes indexes_;
  Crews crews_;
  std::optional<Turn> turn_;
  std::unique_ptr<Pipeline> pipeline_;  // ends before what it works with
};

void StepMakerImpl::ask(uint64_t epoch, uint64_t step) {
  MutexLock lock(mutex_);
  asked_.push_back({.epoch = epoch, .first = step, .end = step + 1});
  changed_.notify_all();
}

void StepMakerImpl::take_back(uint64_t epoch, uint64_t step) {
  MutexLock lock(mutex_);
  std::erase(asked_, StepRun{.epoch = epoch, .first = step, .end = step + 1});
}

void StepMakerImpl::stop() {
  stop_.request_stop();
  MutexLock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

// Waits for the next step that was asked for.
std::optional<StepRun> StepMakerImpl::take(const bool* turn_has_ended) {
  MutexLock lock(mutex_);
  while (asked_.empty() && !stopped_ && !*turn_has_ended) changed_.wait(mutex_);
  if (stopped_ || *turn_has_ended) return std::nullopt;
  const StepRun step = asked_.front();
  asked_.pop_front();
  in_work_.push_back(step);
  return step;
}

void StepMakerImpl::end(bool* turn_has_ended) {
  MutexLock lock(mutex_);
  *turn_has_ended = true;
  changed_.notify_all();
}

Status StepMakerImpl::begin() {
  const bool never = false;
  const auto first = take(&never);
  if (!first) return fail(Code::kCancelled, "feed: stopped");
  turn_.emplace(*this);
  ASSIGN_OR_RETURN(pipeline_,
                   Pipeline::open(*dataset_, options_, planner_, *turn_, *first, indexes_, crews_,
                                  trace_, io::monotonic_clock(), stop_.get_token()));
  return {};
}

// Gives the step that failed, which is over; those after it begin again with the next pipeline.
StepRun StepMakerImpl::end_turn() {
  pipeline_ = nullptr;
  MutexLock lock(mutex_);
  const StepRun failed = in_work_.front();
  in_work_.pop_front();
  asked_.insert(asked_.begin(), in_work_.begin(), in_work_.end());
  in_work_.clear();
  return failed;
}

Result<MadeStep> StepMakerImpl::next() {
  Status status;
  if (pipeline_ == nullptr) status = begin();
  auto prepared = status.ok() ? pipeline_->next() : tl::unexpected(status);
  if (!prepared && prepared.error().code() == Code::kCancelled) {
    return tl::unexpected(prepared.error());
  }
  if (!prepared && pipeline_ != nullptr && !pipeline_->ended()) {
    return tl::unexpected(prepared.error());
  }
  StepRun step;
  if (prepared) {
    MutexLock lock(mutex_);
    step = in_work_.front();
    in_work_.pop_front();
  } else {
    step = end_turn();
  }
  return MadeStep{.epoch = step.epoch, .step = step.first, .batch = std::move(prepared)};
}

}  // namespace

Result<std::unique_ptr<StepMaker>> StepMaker::open(std::shared_ptr<const store::Dataset> dataset,
                                                   const FeedOptions& options) {
  RETURN_IF_ERROR(check_feed(dataset.get(), options));
  if (list_of(options.order) != nullptr) {
    return fail(Code::kUnsupported, "feed: single steps of a list of samples");
  }
  return std::make_unique<StepMakerImpl>(std::move(dataset), options);
}

}  // namespace forebay::feed
