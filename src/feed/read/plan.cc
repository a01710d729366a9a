#include "feed/read/plan.h"

#include <algorithm>
#include <numeric>

#include "feed/read/traffic_since.h"

namespace forebay::feed {

namespace {

// The indices of a lane that belong to a rank: first, first + stride, …
struct Uses {
  uint64_t first = 0;
  uint64_t stride = 1;
  bool any = false;

  // Returns how many of them are below `index`.
  uint64_t below(uint64_t index) const {
    return index <= first ? 0 : (index - first - 1) / stride + 1;
  }
  uint64_t at(uint64_t number) const { return first + number * stride; }
};

// The indices whose position, index * lanes + lane, is this rank's.
Uses uses_of_lane(const Steps& steps, uint64_t lanes, uint64_t lane) {
  Uses uses{.first = 0, .stride = steps.world_size / std::gcd(lanes, steps.world_size)};
  for (; uses.first < uses.stride; ++uses.first) {
    uses.any = steps.has(uses.first * lanes + lane);
    if (uses.any) break;
  }
  return uses;
}

// Returns how many indices of `lane` have a position below `position`.
uint64_t index_of(uint64_t position, uint64_t lanes, uint64_t lane) {
  return position <= lane ? 0 : (position - lane + lanes - 1) / lanes;
}

// The number of positions that an epoch uses: only whole global batches, or all samples, or all
// samples and the repeated ones that give every rank the same number.
uint64_t end_of_epoch(const FeedOptions& options, uint64_t samples) {
  if (options.drop_last) return samples / options.global_batch * options.global_batch;
  if (!options.even_ranks || samples == 0) return samples;
  const auto ranks = static_cast<uint64_t>(options.world_size);
  return (samples + ranks - 1) / ranks * ranks;
}

// Each lane uses one load at a time, so the memory needed at a load's first use is the sum of the
// lanes' current loads.
uint64_t bytes_needed(const EpochPlan& plan) {
  std::vector<uint64_t> in_lane(plan.order->lanes());
  uint64_t now = 0;
  uint64_t most = 0;
  for (const Load& load : plan.loads) {
    uint64_t& lane = in_lane[load.lane];
    now = now - lane + load.bytes;
    lane = load.bytes;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace

FileRange range_of(const store::Dataset& dataset, const Stretch& stretch) {
  const store::Location first = dataset.location(stretch.first_sample);
  const store::Location last = dataset.location(stretch.last_sample);
  const store::ChunkInfo& chunk = dataset.chunk(stretch.chunk);
  const uint64_t end = std::min(last.offset + last.length, chunk.offset + chunk.bytes);
  // Samples usually lie in the order of their numbers; where they do not, they are read one by one.
  if (first.offset >= end) return {};
  return {.offset = first.offset, .length = end - first.offset};
}

Steps steps_of(const FeedOptions& options, uint64_t samples) {
  return {.global_batch = options.global_batch,
          .rank = static_cast<uint64_t>(options.rank),
          .world_size = static_cast<uint64_t>(options.world_size),
          .end = end_of_epoch(options, samples),
          .step_ends = {}};
}

namespace {

// The options of an epoch's order, which has `samples` samples and takes the positions of `steps`.
OrderOptions order_options(const FeedOptions& options, const Steps& steps, uint64_t samples) {
  return {.seed = options.seed,
          .lanes = options.lanes,
          .group_bytes = options.group_bytes,
          .repeats = steps.end > samples ? steps.end - samples : 0};
}

}  // namespace

Result<std::vector<uint64_t>> samples_of_epoch(const store::Dataset& dataset,
                                               const FeedOptions& options, uint64_t epoch,
                                               const io::ReadOptions& read) {
  const uint64_t samples = epoch_samples(options.order, dataset.sample_count());
  const Steps steps = steps_of(options, samples);
  ASSIGN_OR_RETURN(
      const Order order,
      make_order(dataset, options.order, order_options(options, steps, samples), epoch, read));
  return order.samples(steps.end);
}

Planner::Planner(std::shared_ptr<const store::Dataset> dataset, const FeedOptions& options,
                 OrderSource source, Runs runs)
    : dataset_(std::move(dataset)),
      is_remote_(is_any_remote(*dataset_)),
      source_(std::move(source)),
      steps_(steps_of(options, epoch_samples(source_, dataset_->sample_count()))),
      order_(order_options(options, steps_, epoch_samples(source_, dataset_->sample_count()))),
      goes_on_(options.next_epoch),
      runs_(runs) {
  const SampleList* list = list_of(source_);
  if (list == nullptr) return;
  goes_on_ = false;
  steps_.step_ends = list->step_ends;
  if (!steps_.step_ends.empty()) steps_.global_batch = list->largest_step();
}

// The most memory that any epoch of a source that varies may need: each epoch has other samples,
// and must fit into the memory that the first one was given. A group has at most
// kGroupBytesInOrder, or one sample; in a small epoch it has all samples, with the gaps between
// them.
uint64_t Planner::drawn_bytes_needed() const {
  uint64_t largest = 0;
  for (uint64_t sample = 0; sample < dataset_->sample_count(); ++sample) {
    largest = std::max<uint64_t>(largest, dataset_->location(sample).length);
  }
  const auto all = base::checked_mul(largest + kGapBytes, steps_.end);
  return std::max(largest, std::min(kGroupBytesInOrder, all.value_or(kGroupBytesInOrder)));
}

uint64_t Planner::bytes_of(const Order& order, const Group& group) const {
  uint64_t bytes = order.is_shuffled() ? group.count * sizeof(uint32_t) : 0;  // its permutation
  for (const Stretch& stretch : order.stretches(group)) {
    bytes += range_of(*dataset_, stretch).length;
  }
  return bytes;
}

// An epoch with each sample once reads whole chunks. An epoch of a list reads what was chosen,
// which may be little of many chunks.
uint64_t Planner::bytes_of(const Order& order) const {
  uint64_t bytes = 0;
  if (order.is_listed()) {
    for (const Group& group : order.groups()) bytes += bytes_of(order, group);
  } else {
    for (uint32_t number = 0; number < dataset_->chunk_count(); ++number) {
      bytes += dataset_->chunk(number).bytes;
    }
  }
  return bytes;
}

// The mean size of a group's samples if they are read in slices; else 0. Estimated without the
// samples' locations, so that planning touches none of them.
uint64_t Planner::sliced_sample_bytes(const Order& order, const Group& group) const {
  if (!may_slice()) return 0;
  const auto stretches = order.stretches(group);
  const bool is_sliced =
      runs_ == Runs::kSteps || std::ranges::any_of(stretches, [&](const Stretch& stretch) {
        return dataset_->is_remote(stretch.chunk);
      });
  if (!is_sliced) return 0;
  uint64_t bytes = 0;
  for (const Stretch& stretch : stretches) {
    const store::ChunkInfo& chunk = dataset_->chunk(stretch.chunk);
    bytes += chunk.bytes / chunk.samples * stretch.count;
  }
  const uint64_t mean = bytes / group.count;
  if (runs_ == Runs::kSteps) return std::max<uint64_t>(1, mean);
  return mean >= kSlicedSampleBytes ? mean : 0;
}

// Groups that are read as a whole need the locations of their samples before they are read.
Status Planner::load_locations(const Order& order, const io::ReadOptions& read) const {
  if (!is_remote_ || runs_ == Runs::kSteps) return {};
  std::vector<uint32_t> chunks;
  for (const Group& group : order.groups()) {
    const auto stretches = order.stretches(group);
    const bool is_known = std::ranges::all_of(stretches, [&](const Stretch& stretch) {
      return dataset_->knows_locations(stretch.chunk);
    });
    if (is_known || sliced_sample_bytes(order, group) > 0) continue;
    for (const Stretch& stretch : stretches) chunks.push_back(stretch.chunk);
  }
  return chunks.empty() ? Status() : dataset_->load_locations(chunks, read);
}

// Adds the loads of a group. Loads that only steps before the run need get no uses; for single
// steps they are not even added.
void Planner::add_loads(size_t number, EpochPlan* plan) const {
  const Order& order = *plan->order;
  const Group& group = order.groups()[number];
  const Uses uses = uses_of_lane(steps_, order.lanes(), group.lane);
  const auto below = [&](uint64_t position) {
    return uses.below(index_of(position, order.lanes(), group.lane));
  };
  const uint64_t from = uses.below(group.first_index);
  const uint64_t to =
      std::min(uses.below(group.first_index + group.count), below(end_of(plan->run)));
  const uint64_t done = std::max(from, below(steps_.begin_of(plan->run.first)));
  if (!uses.any || from >= to || (runs_ == Runs::kSteps && done >= to)) return;
  const uint64_t mean = sliced_sample_bytes(order, group);
  const uint64_t each = mean == 0 ? to - from : std::max<uint64_t>(1, kSliceBytes / mean);
  const uint64_t first = runs_ == Runs::kSteps ? done - (done - from) % each : from;
  plan->loads_of_group[number] = {.begin = plan->load_numbers.size(),
                                  .first = uses.at(first) - group.first_index,
                                  .span = each * uses.stride};
  plan->has_slices = plan->has_slices || mean > 0;
  for (uint64_t begin = first; begin < to; begin += each) {
    const uint64_t end = std::min(begin + each, to);
    const uint64_t left = std::clamp(done, begin, end);
    plan->load_numbers.push_back(kNoLoad);
    plan->loads.push_back({.group = number,
                           .lane = group.lane,
                           .first_position = uses.at(begin) * order.lanes() + group.lane,
                           .first = uses.at(left) - group.first_index,
                           .stride = uses.stride,
                           .uses = end - left,
                           .bytes = mean == 0 ? bytes_of(order, group) : mean * (end - begin),
                           .is_slice = mean > 0});
  }
}

// The order of an epoch is made anew for each plan, unless the plans are of single steps.
Result<std::shared_ptr<const Order>> Planner::order_of(uint64_t epoch,
                                                       const io::ReadOptions& read) const {
  {
    base::MutexLock lock(mutex_);
    if (last_order_ != nullptr && last_epoch_ == epoch) return last_order_;
  }
  ASSIGN_OR_RETURN(Order made, make_order(*dataset_, source_, order_, epoch, read));
  auto order = std::make_shared<const Order>(std::move(made));
  if (runs_ == Runs::kEpochs) return order;
  base::MutexLock lock(mutex_);
  last_epoch_ = epoch;
  last_order_ = order;
  return order;
}

// Calls `function` for the groups of a run's positions, lane by lane.
template <class Function>
void Planner::each_group(const EpochPlan& plan, const Function& function) const {
  const Order& order = *plan.order;
  if (runs_ == Runs::kEpochs) {
    for (size_t number = 0; number < order.groups().size(); ++number) function(number);
    return;
  }
  for (uint32_t lane = 0; lane < order.lanes(); ++lane) {
    const uint64_t begin = index_of(steps_.begin_of(plan.run.first), order.lanes(), lane);
    const uint64_t end = index_of(end_of(plan.run), order.lanes(), lane);
    if (begin >= end) continue;
    const size_t last = order.group_of(lane, end - 1);
    for (size_t number = order.group_of(lane, begin); number <= last; ++number) function(number);
  }
}

Result<std::shared_ptr<const EpochPlan>> Planner::plan(const StepRun& run,
                                                       const io::ReadOptions& read) const {
  auto plan = std::make_shared<EpochPlan>();
  plan->epoch = run.epoch;
  plan->run = run;
  ASSIGN_OR_RETURN(plan->order, order_of(run.epoch, read));
  RETURN_IF_ERROR(load_locations(*plan->order, read));
  plan->loads_of_group.resize(plan->order->groups().size());
  each_group(*plan, [&](size_t number) { add_loads(number, plan.get()); });
  std::ranges::sort(plan->loads, {}, &Load::first_position);
  plan->bytes_needed = bytes_needed(*plan);
  // Both look at the whole epoch, which is too much work for a single step.
  if (runs_ == Runs::kEpochs) {
    if (varies_by_epoch(source_)) {
      plan->bytes_needed = std::max(plan->bytes_needed, drawn_bytes_needed());
    }
    plan->bytes = bytes_of(*plan->order);
  }
  std::erase_if(plan->loads, [](const Load& load) { return load.uses == 0; });
  for (size_t i = 0; i < plan->loads.size(); ++i) {
    const Load& load = plan->loads[i];
    const LoadsOfGroup& of = plan->loads_of_group[load.group];
    plan->load_numbers[of.begin + (load.first - of.first) / of.span] = i;
  }
  return plan;
}

}  // namespace forebay::feed
