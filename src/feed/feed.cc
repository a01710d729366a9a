#include "feed/feed.h"

#include <algorithm>
#include <set>

#include "base/mutex.h"
#include "feed/options.h"
#include "feed/pipeline.h"
#include "feed/slot_writer.h"
#include "io/machine.h"

namespace forebay::feed {

using base::Code;
using base::fail;

namespace {

constexpr Trace::Track kLoop{.name = "loop"};
constexpr size_t kBadSamplesNamed = 3;  // in the error that ends a run

// One sample may have several numbers in a view.
std::string name_of(const BadSample& bad) { return bad.chunk + "/" + bad.key; }

class FeedImpl final : public Feed {
 public:
  FeedImpl(const io::FileSystem& fs, std::shared_ptr<const store::Dataset> dataset,
           const FeedOptions& options)
      : fs_(fs), dataset_(std::move(dataset)), options_(options), planner_(dataset_, options) {
    shape_ = {.samples = static_cast<uint32_t>(planner_.share().batch()),
              .sample_bytes = SlotWriter(options).sample_bytes(),
              .size = options.transform.size,
              .device = options.device,
              .whole = options.images == Images::kWhole,
              .files = options.files};
  }

  uint64_t steps() const override { return planner_.share().steps(); }
  Status start(const FeedState& state) override;
  bool wait_ms(int ms) override;
  Result<std::shared_ptr<const Batch>> next() override;
  FeedState state() const override { return state_; }
  FeedStats stats() const override;
  Trace& trace() override { return trace_; }

 private:
  Status check_position(const FeedState& state) const;
  Pipeline::Start next_batch() const;
  Status begin();
  void end_pipeline() EXCLUDES(mutex_);
  void add_wait(int64_t since_ns) EXCLUDES(mutex_);
  Status add_bad(std::vector<BadSample> bad);

  const io::FileSystem& fs_;
  const std::shared_ptr<const store::Dataset> dataset_;
  const FeedOptions options_;
  const Planner planner_;
  BatchPool::Shape shape_;
  bool started_ = false;
  FeedState state_;
  std::set<std::string> bad_;  // the names of state_.bad's
  Trace trace_;
  // Of what stats() reads; the consumer alone changes it.
  mutable base::Mutex mutex_;
  FeedStats stats_ GUARDED_BY(mutex_);  // of pipelines that ended, and the consumer's own
  std::unique_ptr<Pipeline> pipeline_;  // replaced under mutex_
};

Status FeedImpl::check_position(const FeedState& state) const {
  if (state.epoch >> 32 != 0) return fail(Code::kInvalid, "feed: epoch {} is too far", state.epoch);
  const Share& share = planner_.share();
  if (share.step_at(state.position)) return {};
  return fail(Code::kInvalid,
              "feed: cannot start at position {}: no step begins there; with the global batch {} "
              "and the epoch's end {}, {}",
              state.position, options_.global_batch, share.end,
              share.step_ends.empty() ? "positions are multiples of the batch"
                                      : "each step has a size of its own");
}

// The batch that comes after state_; at an epoch's end the next epoch's first.
Pipeline::Start FeedImpl::next_batch() const {
  const Share& share = planner_.share();
  const uint64_t step = share.step_at(state_.position).value();
  if (step == share.steps()) return {.epoch = state_.epoch + 1, .step = 0};
  return {.epoch = state_.epoch, .step = step};
}

Status FeedImpl::start(const FeedState& state) {
  RETURN_IF_ERROR(check_position(state));
  const Pipeline::Start before = next_batch();
  state_ = state;
  bad_.clear();
  for (const BadSample& bad : state.bad) bad_.insert(name_of(bad));
  started_ = true;
  // What is prepared already is what is asked for: go on.
  if (pipeline_ != nullptr && options_.next_epoch && next_batch() == before) return {};
  end_pipeline();
  return begin();
}

Status FeedImpl::begin() {
  const Pipeline::Start start = next_batch();
  if (steps() == 0 || start.epoch >> 32 != 0) return {};
  ASSIGN_OR_RETURN(auto pipeline,
                   Pipeline::open(fs_, *dataset_, options_, planner_, shape_, start, trace_));
  base::MutexLock lock(mutex_);
  pipeline_ = std::move(pipeline);
  return {};
}

void FeedImpl::end_pipeline() {
  std::unique_ptr<Pipeline> ended;  // outside the lock, as it waits for its threads
  base::MutexLock lock(mutex_);
  if (pipeline_ != nullptr) pipeline_->add_to(&stats_);
  ended = std::exchange(pipeline_, nullptr);
}

void FeedImpl::add_wait(int64_t since_ns) {
  base::MutexLock lock(mutex_);
  stats_.wait_ns += io::monotonic_ns() - since_ns;
}

bool FeedImpl::wait_ms(int ms) {
  if (!started_ || state_.position == planner_.share().end) return true;
  // Behind an error it begins again. What goes wrong now next() meets too, and tells.
  if (pipeline_ == nullptr && !begin().ok()) return true;
  if (pipeline_ == nullptr) return true;
  const Trace::Span span(trace_, "wait", kLoop, "batch", next_batch().step);
  const int64_t begin_ns = io::monotonic_ns();
  const bool ready = pipeline_->wait_ms(ms);
  add_wait(begin_ns);
  return ready;
}

Result<std::shared_ptr<const Batch>> FeedImpl::next() {
  if (!started_) return fail(Code::kInvalid, "feed: next() before start()");
  if (state_.position == planner_.share().end) return nullptr;
  if (pipeline_ == nullptr) RETURN_IF_ERROR(begin());
  const int64_t begin_ns = io::monotonic_ns();
  Result<Prepared> prepared = pipeline_->next();
  add_wait(begin_ns);
  if (!prepared) {
    // A later call tries from the same position again.
    if (pipeline_->ended()) end_pipeline();
    return tl::unexpected(prepared.error());
  }
  if (const Status status = add_bad(std::move(prepared->bad)); !status.ok()) {
    end_pipeline();
    return tl::unexpected(status);
  }
  state_.position = planner_.share().end_of(prepared->batch->step);
  base::MutexLock lock(mutex_);
  stats_.samples += static_cast<uint64_t>(
      std::ranges::count_if(prepared->batch->valid, [](uint8_t valid) { return valid != 0; }));
  return std::move(prepared->batch);
}

// A sample that is bad in every epoch counts once.
Status FeedImpl::add_bad(std::vector<BadSample> bad) {
  if (bad.empty()) return {};
  std::vector<BadSample> added = state_.bad;
  std::set<std::string> names = bad_;
  for (BadSample& sample : bad) {
    if (names.insert(name_of(sample)).second) added.push_back(std::move(sample));
  }
  if (added.size() > options_.bad_samples_max && added.size() > state_.bad.size()) {
    std::string last;
    for (size_t i = added.size() - std::min(added.size(), kBadSamplesNamed); i < added.size();
         ++i) {
      last += fmt::format("; {} in chunk {}: {}", added[i].key, added[i].chunk, added[i].reason);
    }
    return fail(Code::kCorrupt,
                "feed: {} samples cannot be used, bad_samples_max is {}; see `forebay verify`; "
                "the last ones{}",
                added.size(), options_.bad_samples_max, last);
  }
  state_.bad = std::move(added);
  bad_ = std::move(names);
  return {};
}

FeedStats FeedImpl::stats() const {
  base::MutexLock lock(mutex_);
  FeedStats stats = stats_;
  if (pipeline_ != nullptr) pipeline_->add_to(&stats);
  return stats;
}

}  // namespace

Result<std::unique_ptr<Feed>> Feed::open(const io::FileSystem& fs,
                                         std::shared_ptr<const store::Dataset> dataset,
                                         const FeedOptions& options) {
  RETURN_IF_ERROR(check_options(options).at("feed"));
  if (dataset == nullptr) return fail(Code::kInvalid, "feed: no dataset");
  if (!options.drawn_for.empty() && options.drawn_for.size() != dataset->sample_count()) {
    return fail(Code::kInvalid, "feed: drawn_for has {} numbers, {} has {} samples",
                options.drawn_for.size(), dataset->path(), dataset->sample_count());
  }
  RETURN_IF_ERROR(check_step_ends(options, dataset->sample_count()).at("feed"));
  return std::make_unique<FeedImpl>(fs, std::move(dataset), options);
}

}  // namespace forebay::feed
