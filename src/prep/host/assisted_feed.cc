#include "prep/host/assisted_feed.h"

#include <algorithm>
#include <atomic>

#include "feed/batch/bad_list.h"
#include "feed/batch/steps_over.h"
#include "feed/read/plan.h"
#include "io/machine.h"
#include "io/scratch_files.h"
#include "io/secret_file.h"
#include "prep/host/epoch_share.h"
#include "prep/wire/job.h"

namespace forebay::prep {

using base::Code;
using base::fail;
using feed::Batch;
using feed::FeedState;

namespace {

// How many steps of each prep server may be on their way or wait here.
constexpr uint32_t kHereEach = 4;
constexpr int kLookMs = 100;  // how often the host's feed is checked while no batch comes

// How many steps of all prep servers may be on their way or wait here: as many as fit into a
// quarter of the memory, but from two to kHereEach for each server. Another quarter is for steps
// that are made out of turn.
uint32_t here_max(uint64_t memory_bytes_max, uint64_t batch_bytes, uint32_t servers) {
  const uint64_t fitting = memory_bytes_max / 4 / std::max<uint64_t>(batch_bytes, 1);
  const uint64_t most = uint64_t{kHereEach} * servers;
  return static_cast<uint32_t>(std::clamp<uint64_t>(fitting, uint64_t{2} * servers, most));
}

// Refuses so many servers that two batches of each need more than half of the memory.
Status check_room(uint64_t memory_bytes_max, uint64_t batch_bytes, uint32_t servers) {
  const uint64_t least = uint64_t{2} * servers * batch_bytes;
  if (least <= memory_bytes_max / 2) return {};
  return fail(Code::kInvalid,
              "prep: two batches of each of {} prep servers take {}, but may take at most half of "
              "memory_bytes_max ({}); raise it, or name fewer prep servers",
              servers, base::human_bytes(least), base::human_bytes(memory_bytes_max));
}

feed::FeedOptions options_of_host(feed::FeedOptions options, uint64_t prep_bytes) {
  const uint64_t others = options.memory_bytes_max / 4 + prep_bytes;
  options.memory_bytes_max -= std::min(others, options.memory_bytes_max / 4 * 3);
  return options;
}

class AssistedFeedImpl final : public AssistedFeed {
 public:
  AssistedFeedImpl(std::shared_ptr<const store::Dataset> dataset, const feed::FeedOptions& options,
                   bool any_order, const feed::Steps& steps, uint64_t samples,
                   std::shared_ptr<EpochShare> ends, std::unique_ptr<feed::Feed> host)
      : dataset_(std::move(dataset)),
        options_(options),
        any_order_(any_order),
        own_steps_(steps),
        samples_(samples),
        bad_(options.bad_samples_max),
        ends_(std::move(ends)),
        host_(std::move(host)) {}

  uint64_t steps() const override { return host_->steps(); }
  Status start(const FeedState& state, std::shared_ptr<const feed::SampleList> list,
               const std::stop_token& stop) override;
  bool wait_ms(int ms) override;
  Result<std::shared_ptr<const Batch>> next() override;
  FeedState state() const override { return is_alone_ ? host_->state() : state_; }
  feed::FeedStats stats() const override;
  feed::Trace& trace() override { return host_->trace(); }
  PrepStats prep_stats() const override { return ends_->stats(); }

 private:
  std::optional<feed::Steps> shared_steps(
      const std::shared_ptr<const feed::SampleList>& list) const;
  void look_at_host();
  bool wait_for_ends_ms(int ms);
  void follow();
  StepNumber number_of(const FeedState& state) const {
    return state.epoch * steps_.count() + steps_.step_at(state.position).value();
  }

  const std::shared_ptr<const store::Dataset> dataset_;
  const feed::FeedOptions options_;
  const bool any_order_;
  const feed::Steps own_steps_;     // of epochs without a list
  const uint64_t samples_;          // of an epoch without a list
  feed::Steps steps_ = own_steps_;  // of this epoch
  FeedState state_;
  feed::BadList bad_;
  size_t host_bad_ = 0;    // how many of the host's bad samples are in bad_
  bool is_alone_ = true;   // prep servers do not share the epoch, or nothing was started
  bool has_list_ = false;  // the epoch's samples are a list
  bool is_greeted_ = false;
  // Figures that the host's feed lacks: waits for steps, and samples of the prep servers' steps.
  std::atomic<int64_t> wait_ns_ = 0;
  std::atomic<uint64_t> other_samples_ = 0;
  // What the host's feed gave early: a batch, an error, or null at the epoch's end.
  std::optional<Result<std::shared_ptr<const Batch>>> host_has_;
  const std::shared_ptr<EpochShare> ends_;
  const std::unique_ptr<feed::Feed> host_;  // ends first, because it asks ends_
};

// The steps of an epoch that prep servers may share; nothing if the host prepares the epoch alone.
// It does so for lists with batches of different sizes, or of more samples than memory was planned
// for, for invalid lists, and for lists in any order, because a list's state cannot say which steps
// came before their turn.
std::optional<feed::Steps> AssistedFeedImpl::shared_steps(
    const std::shared_ptr<const feed::SampleList>& list) const {
  if (list == nullptr) {
    return own_steps_.count() == 0 ? std::nullopt : std::optional(own_steps_);
  }
  const bool fits = !any_order_ && list->step_ends.empty() &&
                    feed::check_list(options_, *list, dataset_->sample_count()).ok();
  if (!fits) return std::nullopt;
  feed::Steps steps = feed::Planner(dataset_, options_, list).steps();
  const bool has_room = steps.batch() <= own_steps_.batch();
  return steps.count() == 0 || !has_room ? std::nullopt : std::optional(std::move(steps));
}

Status AssistedFeedImpl::start(const FeedState& state, std::shared_ptr<const feed::SampleList> list,
                               const std::stop_token& stop) {
  auto steps = shared_steps(list);
  const bool was_alone = std::exchange(is_alone_, !steps);
  if (is_alone_) {
    ends_->pause();
    host_has_.reset();
    return host_->start(state, std::move(list), stop);
  }
  const bool is_known = state.epoch >> 32 == 0 && steps->step_at(state.position).has_value();
  is_alone_ = true;                                                  // in case of an error
  if (!is_known) return host_->start(state, std::move(list), stop);  // returns the error
  ASSIGN_OR_RETURN(auto over, feed::steps_over(state, *steps, samples_));
  if (!std::exchange(is_greeted_, true)) {
    const Status greeted = ends_->greet();
    if (!greeted.ok()) is_greeted_ = false;
    RETURN_IF_ERROR(greeted);
  }
  is_alone_ = false;
  const bool had_list = std::exchange(has_list_, list != nullptr);
  const bool goes_on = !was_alone && !had_list && !has_list_ &&
                       number_of(state) == number_of(state_) && state.over == state_.over &&
                       ends_->position() == number_of(state);
  const bool was_at_end = state_.position == steps_.end;
  steps_ = std::move(*steps);
  state_ = state;
  bad_.begin(state.bad);
  if (goes_on && !was_at_end) return {};
  host_has_.reset();
  if (goes_on) {
    // The host's feed is at the epoch's end only after it has said that no batch is left.
    ASSIGN_OR_RETURN(const auto last, host_->next());
    FOREBAY_CHECK(last == nullptr);
  } else {
    for (uint64_t& step : over) step += state.epoch * steps_.count();
    ends_->begin({.epoch = state.epoch,
                  .step = steps_.step_at(state.position).value(),
                  .over = std::move(over),
                  .steps_each = steps_.count(),
                  .slots = steps_.batch(),
                  .list = list});
  }
  host_bad_ = state.bad.size();
  FeedState of_host = state;
  of_host.over.clear();  // ends_ leaves these steps out
  return host_->start(of_host, std::move(list), stop);
}

// Updates the state after the consumer has got a step.
void AssistedFeedImpl::follow() {
  const StepNumber begin = state_.epoch * steps_.count();
  const uint64_t step = ends_->position() - begin;
  state_.position = step < steps_.count() ? steps_.begin_of(step) : steps_.end;
  std::vector<StepNumber> over = ends_->over();
  for (StepNumber& number : over) number -= begin;
  state_.over = feed::positions_over(over, steps_);
}

// The host's feed may have no step for a reason that only it knows: an error, or no memory besides
// the batches that the consumer holds. So it is asked from time to time while no batch comes.
void AssistedFeedImpl::look_at_host() {
  if (host_has_ || !host_->wait_ms(0)) return;
  host_has_ = host_->next();
}

feed::FeedStats AssistedFeedImpl::stats() const {
  feed::FeedStats stats = host_->stats();
  stats.wait_ns += wait_ns_;
  stats.samples += other_samples_;
  return stats;
}

bool AssistedFeedImpl::wait_for_ends_ms(int ms) {
  const int64_t begin_ns = io::monotonic_ns();
  const bool is_ready = ends_->wait_ms(ms);
  wait_ns_ += io::monotonic_ns() - begin_ns;
  return is_ready;
}

bool AssistedFeedImpl::wait_ms(int ms) {
  if (is_alone_) return host_->wait_ms(ms);
  if (state_.position == steps_.end) return true;
  while (!wait_for_ends_ms(std::min(ms, kLookMs))) {
    look_at_host();
    if (host_has_ && !*host_has_) return true;
    if (ms <= kLookMs) return false;
    ms -= kLookMs;
  }
  return true;
}

Result<std::shared_ptr<const Batch>> AssistedFeedImpl::next() {
  if (is_alone_) return host_->next();
  if (state_.position == steps_.end) return nullptr;
  while (!wait_ms(kLookMs)) {
  }
  if (host_has_ && !*host_has_ && !ends_->wait_ms(0)) {
    return std::exchange(host_has_, std::nullopt).value();
  }
  ASSIGN_OR_RETURN(GivenStep given, ends_->next());
  std::shared_ptr<const Batch> batch;
  std::vector<feed::BadSample> bad;
  if (given.batch) {
    batch = std::move(given.batch->batch);
    bad = std::move(given.batch->bad);
  } else {
    auto made = host_has_ ? std::exchange(host_has_, std::nullopt).value() : host_->next();
    if (!made) return made;
    batch = std::move(*made);
    const auto all = host_->state().bad;
    bad.assign(all.begin() + static_cast<ptrdiff_t>(host_bad_), all.end());
  }
  FOREBAY_CHECK(batch != nullptr && batch->epoch * steps_.count() + batch->step == given.step);
  const size_t bad_here = bad.size();
  if (const Status status = bad_.add(std::move(bad)); !status.ok()) {
    if (!given.batch) host_has_ = std::move(batch);  // it can be asked for again
    return tl::unexpected(status);
  }
  ends_->took();
  if (given.batch) {
    other_samples_ += static_cast<uint64_t>(std::ranges::count(batch->valid, uint8_t{1}));
  } else {
    host_bad_ += bad_here;
  }
  follow();
  if (bad_.all().size() != state_.bad.size()) state_.bad = bad_.all();
  return batch;
}

// A prep server of this machine that was started without a secret has the secret of its user.
Result<io::Secret> own_secret_for(const ServerAddress& place) {
  if (!place.is_loopback) {
    return fail(Code::kInvalid,
                "prep: {} asks for a secret, and none is given; set FOREBAY_PREP_SECRET to the "
                "secret in its `forebay prep --secret-file`",
                place.name);
  }
  auto secret = io::own_secret(/*make=*/false);
  if (secret) return secret;
  return fail(secret.error().code(),
              "prep: {}: this user has not started a prep server on this machine ({}); if somebody "
              "else did, set FOREBAY_PREP_SECRET to the secret in its --secret-file",
              place.name, secret.error().message());
}

}  // namespace

Result<std::unique_ptr<AssistedFeed>> AssistedFeed::open(
    std::shared_ptr<const store::Dataset> dataset, const feed::FeedOptions& options,
    const PrepOptions& prep, const io::Clock& clock) {
  RETURN_IF_ERROR(feed::check_feed(dataset.get(), options));
  if (options.device != nullptr) {
    return fail(Code::kUnsupported,
                "prep: prep servers prepare batches for the host's memory; use decode=\"cpu\"");
  }
  const bool any_order = prep.any_order || prep.policy != PolicyKind::kInterleave;
  if (any_order && std::holds_alternative<feed::Weighted>(options.order)) {
    return fail(Code::kInvalid,
                "prep: samples drawn by weights must come in the epoch's order; use the policy "
                "\"interleave\" with the order \"epoch\"");
  }
  if (any_order && options.world_size > 1) {
    return fail(Code::kInvalid,
                "prep: steps in any order need a job of one process; in a job of {} processes "
                "each would go through the epoch in another order; use the policy \"interleave\" "
                "with the order \"epoch\"",
                options.world_size);
  }
  EpochShareSetup setup{.dataset = dataset, .options = options};
  PrepJob job{.dataset = {}, .host = io::random_file_name(), .options = wire_options(options)};
  set_dataset(*dataset, &job, &setup.tables);
  auto encoded = encode_job(job);
  if (!encoded) return tl::unexpected(encoded.error().at("prep"));
  setup.job = std::move(encoded->text);
  std::ranges::move(encoded->tables, std::back_inserter(setup.tables));
  io::Secret secret = prep.secret;
  for (const std::string& url : prep.servers) {
    ASSIGN_OR_RETURN(const ServerAddress place, parse_server(url));
    setup.places.push_back(place);
    if (!place.is_tls || !prep.secret.empty()) continue;
    ASSIGN_OR_RETURN(secret, own_secret_for(place));
  }
  const feed::Planner planner(dataset, options, options.order);
  const auto servers = static_cast<uint32_t>(setup.places.size());
  const uint64_t batch_bytes = expected_batches(options, planner.steps().batch()).tensor_bytes;
  RETURN_IF_ERROR(check_room(options.memory_bytes_max, batch_bytes, servers));
  const uint32_t here = here_max(options.memory_bytes_max, batch_bytes, servers);
  setup.policy = {.policy = prep.policy,
                  .any_order = any_order,
                  .steps_each = std::max<uint64_t>(1, planner.steps().count()),
                  .servers = servers,
                  .here_max = here,
                  .kept_max = base::kKeptStepsMax};
  feed::FeedOptions host_options = options_of_host(options, here * batch_bytes);
  ASSIGN_OR_RETURN(auto client, PrepClient::open(secret, servers));
  const auto ends = std::make_shared<EpochShare>(std::move(setup), std::move(client), clock);
  host_options.filter = ends;
  const uint64_t samples = feed::epoch_samples(options.order, dataset->sample_count());
  ASSIGN_OR_RETURN(auto host, feed::Feed::open(dataset, host_options, clock));
  return std::make_unique<AssistedFeedImpl>(std::move(dataset), options, any_order, planner.steps(),
                                            samples, ends, std::move(host));
}

}  // namespace forebay::prep
