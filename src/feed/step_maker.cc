#include "feed/step_maker.h"

#include <deque>
#include <new>

#include "feed/make/pipeline.h"
#include "feed/make/pipeline_memory.h"

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
        planner_(plan_for(options_.order)),
        indexes_(*dataset_, options_.memory_bytes_max / kIndexShare) {}

  Result<uint64_t> begin(std::shared_ptr<const SampleList> list) override EXCLUDES(mutex_);
  uint64_t steps() const override EXCLUDES(mutex_);
  uint64_t slots() const override EXCLUDES(mutex_);
  void ask(uint64_t epoch, uint64_t step) override EXCLUDES(mutex_);
  void take_back(uint64_t epoch, uint64_t step) override EXCLUDES(mutex_);
  void stop() override EXCLUDES(mutex_);
  Result<MadeStep> next() override EXCLUDES(mutex_);

 private:
  // The step schedule of one pipeline, whose steps have one order.
  class Turn final : public StepSchedule {
   public:
    Turn(StepMakerImpl& maker, std::shared_ptr<const Planner> planner, uint64_t begun)
        : maker_(maker), planner_(std::move(planner)), begun_(begun) {}
    bool goes_on(const StepRun&) const override { return true; }
    std::optional<StepRun> next(const StepRun&) override { return maker_.take(*this); }
    void stop() override { maker_.end(this); }

    const Planner& planner() const { return *planner_; }

   private:
    friend class StepMakerImpl;
    StepMakerImpl& maker_;
    const std::shared_ptr<const Planner> planner_;
    const uint64_t begun_;
    bool has_ended_ = false;  // guarded by the maker's mutex
  };

  std::shared_ptr<const Planner> plan_for(OrderSource source) const {
    return std::make_shared<const Planner>(dataset_, options_, std::move(source), Runs::kSteps);
  }
  std::optional<StepRun> take(const Turn& turn) EXCLUDES(mutex_);
  void end(Turn* turn) EXCLUDES(mutex_);
  Status begin_turn() EXCLUDES(mutex_);
  void set_pipeline(std::shared_ptr<Pipeline> pipeline) EXCLUDES(mutex_);
  StepRun end_turn() EXCLUDES(mutex_);
  bool has_begun_anew() EXCLUDES(mutex_);

  const std::shared_ptr<const store::Dataset> dataset_;
  const FeedOptions options_;

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::stop_source stop_;
  std::shared_ptr<const Planner> planner_ GUARDED_BY(mutex_);
  uint64_t begun_ GUARDED_BY(mutex_) = 0;           // how often begin() was called
  std::deque<StepRun> asked_ GUARDED_BY(mutex_);    // since the last begin()
  std::deque<StepRun> in_work_ GUARDED_BY(mutex_);  // given to the pipeline

  Trace trace_;
  ChunkIndexes indexes_;
  Crews crews_;
  std::optional<Turn> turn_;
  // Ends before the members above, which it uses. Only the thread of next() changes it; stop()
  // shares it.
  std::shared_ptr<Pipeline> pipeline_;
};

Result<uint64_t> StepMakerImpl::begin(std::shared_ptr<const SampleList> list) {
  OrderSource order = options_.order;
  if (list != nullptr) {
    RETURN_IF_ERROR(check_list(options_, *list, dataset_->sample_count()).at("feed"));
    order = std::move(list);
  }
  auto planner = plan_for(std::move(order));
  MutexLock lock(mutex_);
  planner_ = std::move(planner);
  asked_.clear();
  changed_.notify_all();
  return ++begun_;
}

uint64_t StepMakerImpl::steps() const {
  MutexLock lock(mutex_);
  return planner_->steps().count();
}

uint64_t StepMakerImpl::slots() const {
  MutexLock lock(mutex_);
  return planner_->steps().batch();
}

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
  std::shared_ptr<Pipeline> pipeline;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
    pipeline = pipeline_;
  }
  if (pipeline != nullptr) pipeline->stop();
}

// Waits for the next requested step; nothing if the turn is over.
std::optional<StepRun> StepMakerImpl::take(const Turn& turn) {
  MutexLock lock(mutex_);
  const auto is_over = [&]() REQUIRES(mutex_) {
    return stopped_ || turn.has_ended_ || turn.begun_ != begun_;
  };
  while (asked_.empty() && !is_over()) changed_.wait(mutex_);
  if (is_over()) return std::nullopt;
  const StepRun step = asked_.front();
  asked_.pop_front();
  in_work_.push_back(step);
  return step;
}

void StepMakerImpl::end(Turn* turn) {
  MutexLock lock(mutex_);
  turn->has_ended_ = true;
  changed_.notify_all();
}

// Waits for the first step of a turn.
Status StepMakerImpl::begin_turn() {
  std::optional<StepRun> first;
  while (!first) {
    {
      MutexLock lock(mutex_);
      if (stopped_) return fail(Code::kCancelled, "feed: stopped");
      turn_.emplace(*this, planner_, begun_);
    }
    first = take(*turn_);
  }
  try {
    ASSIGN_OR_RETURN(auto pipeline,
                     Pipeline::open(*dataset_, options_, turn_->planner(), *turn_, *first, indexes_,
                                    crews_, trace_, io::monotonic_clock(), stop_.get_token()));
    set_pipeline(std::move(pipeline));
  } catch (const base::NoThread& error) {
    return fail(Code::kNoMemory, "feed: {}", error.what());
  } catch (const std::bad_alloc&) {
    return fail(Code::kNoMemory, "feed: no memory for the order of epoch {}", first->epoch);
  }
  return {};
}

// A pipeline that begins after stop() must be stopped here.
void StepMakerImpl::set_pipeline(std::shared_ptr<Pipeline> pipeline) {
  bool is_stopped = false;
  {
    MutexLock lock(mutex_);
    pipeline.swap(pipeline_);
    is_stopped = stopped_;
  }
  if (is_stopped && pipeline_ != nullptr) pipeline_->stop();
}

// Returns the step that failed, which is over; the steps after it begin again with the next
// pipeline.
StepRun StepMakerImpl::end_turn() {
  set_pipeline(nullptr);
  MutexLock lock(mutex_);
  const StepRun failed = in_work_.front();
  in_work_.pop_front();
  if (turn_->begun_ == begun_) asked_.insert(asked_.begin(), in_work_.begin(), in_work_.end());
  in_work_.clear();
  return failed;
}

// Drops the turn if its order is not the current one.
bool StepMakerImpl::has_begun_anew() {
  {
    MutexLock lock(mutex_);
    if (stopped_ || turn_->begun_ == begun_) return false;
  }
  set_pipeline(nullptr);
  MutexLock lock(mutex_);
  in_work_.clear();
  return true;
}

Result<MadeStep> StepMakerImpl::next() {
  for (;;) {
    Status status;
    if (pipeline_ == nullptr) status = begin_turn();
    auto prepared = status.ok() ? pipeline_->next() : tl::unexpected(status);
    if (has_begun_anew()) continue;
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
    return MadeStep{.epoch = step.epoch,
                    .step = step.first,
                    .begun = turn_->begun_,
                    .batch = std::move(prepared)};
  }
}

}  // namespace

Result<std::unique_ptr<StepMaker>> StepMaker::open(std::shared_ptr<const store::Dataset> dataset,
                                                   const FeedOptions& options) {
  RETURN_IF_ERROR(check_feed(dataset.get(), options));
  return std::make_unique<StepMakerImpl>(std::move(dataset), options);
}

}  // namespace forebay::feed
