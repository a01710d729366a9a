#include "feed/feed.h"

#include <algorithm>
#include <set>

#include "base/limits.h"
#include "feed/options.h"
#include "feed/pipeline.h"
#include "io/machine.h"

namespace forebay::feed {

using base::Code;
using base::fail;

namespace {

constexpr size_t kBadSamplesNamed = 3;  // in the error that ends a run

class FeedImpl final : public Feed {
 public:
  FeedImpl(const io::FileSystem& fs, std::shared_ptr<const store::Dataset> dataset,
           const FeedOptions& options)
      : fs_(fs), dataset_(std::move(dataset)), options_(options), planner_(dataset_, options) {
    shape_ = {.samples = static_cast<uint32_t>(planner_.share().batch()),
              .sample_bytes = image::Preparer(options.transform, options.tensor).sample_bytes(),
              .size = options.transform.size};
  }

  uint64_t steps() const override { return planner_.steps(); }
  Status start(const FeedState& state) override;
  Result<std::shared_ptr<const Batch>> next() override;
  FeedState state() const override { return state_; }
  FeedStats stats() const override;

 private:
  Status check_position(const FeedState& state) const;
  Pipeline::Start next_batch() const;
  Status begin();
  void end_pipeline();
  Status add_bad(std::vector<BadSample> bad);

  const io::FileSystem& fs_;
  const std::shared_ptr<const store::Dataset> dataset_;
  const FeedOptions options_;
  const Planner planner_;
  BatchPool::Shape shape_;
  bool started_ = false;
  FeedState state_;
  std::set<uint64_t> bad_;  // the samples of state_.bad
  FeedStats stats_;         // of pipelines that ended, and the consumer's own
  std::unique_ptr<Pipeline> pipeline_;
};

Status FeedImpl::check_position(const FeedState& state) const {
  if (state.epoch >> 32 != 0) return fail(Code::kInvalid, "feed: epoch {} is too far", state.epoch);
  if (state.position == planner_.end()) return {};
  if (state.position > planner_.end() || state.position % options_.global_batch != 0) {
    return fail(Code::kInvalid,
                "feed: cannot start at position {}: it must be a multiple of the global batch "
                "({}) up to the epoch's end ({})",
                state.position, options_.global_batch, planner_.end());
  }
  return {};
}

// The batch that comes after state_; at an epoch's end the next epoch's first.
Pipeline::Start FeedImpl::next_batch() const {
  if (state_.position == planner_.end()) return {.epoch = state_.epoch + 1, .step = 0};
  return {.epoch = state_.epoch, .step = state_.position / options_.global_batch};
}

Status FeedImpl::start(const FeedState& state) {
  RETURN_IF_ERROR(check_position(state));
  const Pipeline::Start before = next_batch();
  state_ = state;
  bad_.clear();
  for (const BadSample& bad : state.bad) bad_.insert(bad.sample);
  started_ = true;
  // What is prepared already is what is asked for: go on.
  if (pipeline_ != nullptr && next_batch() == before) return {};
  end_pipeline();
  return begin();
}

Status FeedImpl::begin() {
  const Pipeline::Start start = next_batch();
  if (planner_.steps() == 0 || start.epoch >> 32 != 0) return {};
  ASSIGN_OR_RETURN(pipeline_, Pipeline::open(fs_, *dataset_, options_, planner_, shape_, start));
  return {};
}

void FeedImpl::end_pipeline() {
  if (pipeline_ != nullptr) pipeline_->add_to(&stats_);
  pipeline_ = nullptr;
}

Result<std::shared_ptr<const Batch>> FeedImpl::next() {
  if (!started_) return fail(Code::kInvalid, "feed: next() before start()");
  if (state_.position == planner_.end()) return nullptr;
  if (pipeline_ == nullptr) RETURN_IF_ERROR(begin());
  const int64_t begin_ns = io::monotonic_ns();
  Result<Prepared> prepared = pipeline_->next();
  stats_.wait_ns += io::monotonic_ns() - begin_ns;
  if (!prepared) {
    // A later call tries from the same position again.
    if (pipeline_->ended()) end_pipeline();
    return tl::unexpected(prepared.error());
  }
  if (const Status status = add_bad(std::move(prepared->bad)); !status.ok()) {
    end_pipeline();
    return tl::unexpected(status);
  }
  const uint64_t step = prepared->batch->step;
  state_.position = std::min((step + 1) * options_.global_batch, planner_.end());
  stats_.samples += static_cast<uint64_t>(
      std::ranges::count_if(prepared->batch->valid, [](uint8_t valid) { return valid != 0; }));
  return std::move(prepared->batch);
}

// A sample that is bad in every epoch counts once.
Status FeedImpl::add_bad(std::vector<BadSample> bad) {
  std::vector<BadSample> added = state_.bad;
  for (BadSample& sample : bad) {
    if (!bad_.contains(sample.sample)) added.push_back(std::move(sample));
  }
  if (added.size() > options_.bad_samples_max && added.size() > state_.bad.size()) {
    std::string names;
    for (size_t i = added.size() - std::min(added.size(), kBadSamplesNamed); i < added.size();
         ++i) {
      names += fmt::format("; {} in chunk {}: {}", added[i].key, added[i].chunk, added[i].reason);
    }
    return fail(Code::kCorrupt,
                "feed: {} samples cannot be used, bad_samples_max is {}; see `forebay verify`; "
                "the last ones{}",
                added.size(), options_.bad_samples_max, names);
  }
  state_.bad = std::move(added);
  for (const BadSample& sample : state_.bad) bad_.insert(sample.sample);
  return {};
}

FeedStats FeedImpl::stats() const {
  FeedStats stats = stats_;
  if (pipeline_ != nullptr) pipeline_->add_to(&stats);
  return stats;
}

}  // namespace

Result<std::unique_ptr<Feed>> Feed::open(const io::FileSystem& fs,
                                         std::shared_ptr<const store::Dataset> dataset,
                                         const FeedOptions& options) {
  RETURN_IF_ERROR(check_options(options));
  if (dataset == nullptr) return fail(Code::kInvalid, "feed: no dataset");
  if (options.drop_last && dataset->sample_count() < options.global_batch) {
    return fail(Code::kInvalid,
                "feed: {} has {} samples, fewer than one global batch ({}); give a smaller batch "
                "(global_batch), or keep the last one (drop_last)",
                dataset->path(), dataset->sample_count(), options.global_batch);
  }
  return std::make_unique<FeedImpl>(fs, std::move(dataset), options);
}

}  // namespace forebay::feed
