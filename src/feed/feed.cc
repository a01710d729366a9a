#include "feed/feed.h"

#include <algorithm>

#include "base/mutex.h"
#include "feed/batch/bad_list.h"
#include "feed/batch/steps_over.h"
#include "feed/make/pipeline.h"
#include "feed/make/pipeline_memory.h"
#include "feed/read/traffic_since.h"
#include "io/machine.h"

namespace forebay::feed {

using base::Code;
using base::fail;

namespace {

constexpr Trace::Track kLoop{.name = "loop"};

// An epoch and the epochs after it, if the planner continues with them.
class WholeEpochs final : public StepSchedule {
 public:
  explicit WholeEpochs(std::shared_ptr<const Planner> planner) : planner_(std::move(planner)) {}
  bool goes_on(const StepRun& run) const override { return planner_->goes_on(run.epoch); }
  std::optional<StepRun> next(const StepRun& run) override {
    return planner_->epoch_from(run.epoch + 1);
  }

 private:
  const std::shared_ptr<const Planner> planner_;
};

class FeedImpl final : public Feed {
 public:
  FeedImpl(std::shared_ptr<const store::Dataset> dataset, const FeedOptions& options,
           const io::Clock& clock)
      : dataset_(std::move(dataset)),
        options_(options),
        filter_(options.filter),
        clock_(clock),
        own_planner_(std::make_shared<const Planner>(dataset_, options, options.order)),
        planner_(own_planner_),
        bad_(options.bad_samples_max),
        traffic_(*dataset_),
        indexes_(*dataset_, options.memory_bytes_max / kIndexShare) {}

  uint64_t steps() const override { return planner_->steps().count(); }
  Status start(const FeedState& state, std::shared_ptr<const SampleList> list,
               const std::stop_token& stop) override;
  bool wait_ms(int ms) override;
  Result<std::shared_ptr<const Batch>> next() override;
  FeedState state() const override { return state_; }
  FeedStats stats() const override;
  Trace& trace() override { return trace_; }

 private:
  static Status check_position(const FeedState& state, const Steps& steps);
  StepRun next_batch() const;
  Status begin(const std::stop_token& stop);
  void end_pipeline() EXCLUDES(mutex_);
  void go_after(uint64_t step);
  void add_wait(int64_t since_ns) EXCLUDES(mutex_);

  const std::shared_ptr<const store::Dataset> dataset_;
  FeedOptions options_;                       // `filter` changes between pipelines
  const std::shared_ptr<StepFilter> filter_;  // the one that open() was given
  const io::Clock& clock_;
  const std::shared_ptr<const Planner> own_planner_;  // of the epochs of FeedOptions::order
  std::shared_ptr<const Planner> planner_;            // of the epoch that was started last
  bool started_ = false;
  FeedState state_;
  std::vector<uint64_t> over_;  // steps of state_.over
  bool ends_early_ = false;     // the epoch ended with steps of over_, before the pipeline's end
  BadList bad_;                 // the bad samples of state_
  Trace trace_;
  // Guards what stats() reads; only the consumer changes it.
  mutable base::Mutex mutex_;
  FeedStats stats_ GUARDED_BY(mutex_);  // of pipelines that ended, and of the consumer
  const TrafficSince traffic_;
  ChunkIndexes indexes_;  // kept from one pipeline to the next
  Crews crews_;
  std::optional<WholeEpochs> schedule_;  // the pipeline's
  std::unique_ptr<Pipeline> pipeline_;   // replaced under mutex_; ends before what it works with
};

Status FeedImpl::check_position(const FeedState& state, const Steps& steps) {
  if (state.epoch >> 32 != 0) {
    return fail(Code::kInvalid, "feed: epoch {} is too large; it must be below 2^32", state.epoch);
  }
  if (steps.step_at(state.position)) return {};
  return fail(Code::kInvalid,
              "feed: cannot start at position {}: no step begins there; with the global batch {} "
              "and the epoch's end {}, {}",
              state.position, steps.global_batch, steps.end,
              steps.step_ends.empty() ? "positions are multiples of the batch"
                                      : "each step has a size of its own");
}

// Returns the steps after state_: the rest of its epoch, or at the epoch's end the next epoch.
StepRun FeedImpl::next_batch() const {
  const Steps& steps = planner_->steps();
  const uint64_t step = steps.step_at(state_.position).value();
  if (step == steps.count()) return planner_->epoch_from(state_.epoch + 1);
  return planner_->epoch_from(state_.epoch, step);
}

Status FeedImpl::start(const FeedState& state, std::shared_ptr<const SampleList> list,
                       const std::stop_token& stop) {
  std::shared_ptr<const Planner> planner = own_planner_;
  if (list != nullptr) {
    RETURN_IF_ERROR(check_list(options_, *list, dataset_->sample_count()).at("feed"));
    planner = std::make_shared<const Planner>(dataset_, options_, std::move(list));
  }
  RETURN_IF_ERROR(check_position(state, planner->steps()));
  const uint64_t samples = epoch_samples(options_.order, dataset_->sample_count());
  ASSIGN_OR_RETURN(auto over, steps_over(state, planner->steps(), samples));
  // In the middle of an epoch, a filter may now take steps that it left out before.
  const bool is_inside = options_.filter != nullptr && state_.position != planner->steps().end;
  const bool may_go_on = pipeline_ != nullptr && options_.next_epoch && planner == planner_ &&
                         !is_inside && over.empty() && !ends_early_;
  const StepRun before = next_batch();
  state_ = state;
  bad_.begin(state.bad);
  over_ = std::move(over);
  started_ = true;
  // The pipeline stays if it already prepares the wanted batches.
  if (may_go_on && next_batch() == before) return {};
  end_pipeline();
  ends_early_ = false;
  options_.filter =
      over_.empty() ? filter_ : std::make_shared<WithoutSteps>(state.epoch, over_, filter_);
  planner_ = std::move(planner);
  return begin(stop);
}

// Moves the position after a step that the consumer got.
void FeedImpl::go_after(uint64_t step) {
  const Steps& steps = planner_->steps();
  uint64_t next = step + 1;
  while (std::ranges::binary_search(over_, next)) ++next;
  state_.position = next < steps.count() ? steps.begin_of(next) : steps.end;
  ends_early_ = state_.position == steps.end && next > step + 1;
  std::erase_if(state_.over, [&](const Positions& over) { return over.begin < state_.position; });
}

Status FeedImpl::begin(const std::stop_token& stop) {
  const StepRun first = next_batch();
  if (steps() == 0 || first.epoch >> 32 != 0) return {};
  schedule_.emplace(planner_);
  ASSIGN_OR_RETURN(auto pipeline, Pipeline::open(*dataset_, options_, *planner_, *schedule_, first,
                                                 indexes_, crews_, trace_, clock_, stop));
  base::MutexLock lock(mutex_);
  pipeline_ = std::move(pipeline);
  return {};
}

void FeedImpl::end_pipeline() {
  std::unique_ptr<Pipeline> ended;  // destroyed without the lock, because it waits for its threads
  base::MutexLock lock(mutex_);
  if (pipeline_ != nullptr) pipeline_->add_to(&stats_);
  ended = std::exchange(pipeline_, nullptr);
}

void FeedImpl::add_wait(int64_t since_ns) {
  base::MutexLock lock(mutex_);
  stats_.wait_ns += io::monotonic_ns() - since_ns;
}

bool FeedImpl::wait_ms(int ms) {
  if (!started_ || state_.position == planner_->steps().end) return true;
  // After an error the pipeline begins again. If that fails, next() will fail too and return the
  // error.
  if (pipeline_ == nullptr && !begin({}).ok()) return true;
  if (pipeline_ == nullptr) return true;
  const Trace::Span span(trace_, "wait", kLoop, "batch", next_batch().first);
  const int64_t begin_ns = io::monotonic_ns();
  const bool ready = pipeline_->wait_ms(ms);
  add_wait(begin_ns);
  return ready;
}

Result<std::shared_ptr<const Batch>> FeedImpl::next() {
  if (!started_) return fail(Code::kInvalid, "feed: next() before start()");
  if (state_.position == planner_->steps().end) return nullptr;
  if (pipeline_ == nullptr) RETURN_IF_ERROR(begin({}));
  const int64_t begin_ns = io::monotonic_ns();
  Result<Prepared> prepared = pipeline_->next();
  add_wait(begin_ns);
  if (!prepared) {
    // A later call tries again from the same position.
    if (pipeline_->ended()) end_pipeline();
    return tl::unexpected(prepared.error());
  }
  if (const Status status = bad_.add(std::move(prepared->bad)); !status.ok()) {
    end_pipeline();
    return tl::unexpected(status);
  }
  if (bad_.all().size() != state_.bad.size()) state_.bad = bad_.all();
  if (prepared->batch == nullptr) {
    state_.position = planner_->steps().end;
    return nullptr;
  }
  go_after(prepared->batch->step);
  base::MutexLock lock(mutex_);
  stats_.samples += static_cast<uint64_t>(
      std::ranges::count_if(prepared->batch->valid, [](uint8_t valid) { return valid != 0; }));
  return std::move(prepared->batch);
}

FeedStats FeedImpl::stats() const {
  base::MutexLock lock(mutex_);
  FeedStats stats = stats_;
  if (pipeline_ != nullptr) pipeline_->add_to(&stats);
  stats.bytes_read += indexes_.bytes_read();
  stats.requests += indexes_.reads();
  stats.ranges += indexes_.reads();
  stats.link = traffic_.traffic();
  return stats;
}

}  // namespace

Result<std::unique_ptr<Feed>> Feed::open(std::shared_ptr<const store::Dataset> dataset,
                                         const FeedOptions& options, const io::Clock& clock) {
  RETURN_IF_ERROR(check_feed(dataset.get(), options));
  return std::make_unique<FeedImpl>(std::move(dataset), options, clock);
}

}  // namespace forebay::feed
