#include "feed/plan.h"

#include <algorithm>
#include <numeric>

namespace forebay::feed {

namespace {

// Where most samples are read one by one in any group (files, scattered ones of a view): small
// groups begin sooner and take less memory.
constexpr uint64_t kGroupBytesOfFiles = 4'000'000;

// The indices of a lane that belong to a rank: first, first + stride, …
struct Uses {
  uint64_t first = 0;
  uint64_t stride = 1;
  bool any = false;

  // How many lie below `index`.
  uint64_t below(uint64_t index) const {
    return index <= first ? 0 : (index - first - 1) / stride + 1;
  }
  uint64_t at(uint64_t number) const { return first + number * stride; }
};

// Position index * lanes + lane is to be `rank` modulo the world's size.
Uses uses_of_lane(const Share& share, uint64_t lanes, uint64_t lane) {
  Uses uses{.first = 0, .stride = share.world_size / std::gcd(lanes, share.world_size)};
  for (; uses.first < uses.stride; ++uses.first) {
    uses.any = (uses.first * lanes + lane) % share.world_size == share.rank;
    if (uses.any) break;
  }
  return uses;
}

// Indices of `lane` whose position is below `position`.
uint64_t index_of(uint64_t position, uint64_t lanes, uint64_t lane) {
  return position <= lane ? 0 : (position - lane + lanes - 1) / lanes;
}

// Positions that an epoch uses: whole global batches, or all samples, or so many more that each
// rank gets as many.
uint64_t end_of_epoch(const FeedOptions& options, uint64_t samples) {
  if (options.drop_last) return samples / options.global_batch * options.global_batch;
  if (!options.even_ranks || samples == 0) return samples;
  const auto ranks = static_cast<uint64_t>(options.world_size);
  return (samples + ranks - 1) / ranks * ranks;
}

// One group of a lane is in use at a time, so what is needed at a load's first use is the sum of
// the lanes' current groups.
uint64_t bytes_needed(const EpochPlan& plan) {
  std::vector<uint64_t> in_lane(plan.order.lanes());
  uint64_t now = 0;
  uint64_t most = 0;
  for (const auto& load : plan.loads) {
    uint64_t& lane = in_lane[plan.order.groups()[load->group].lane];
    now = now - lane + load->bytes;
    lane = load->bytes;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace

PartBytes span_of(const store::Dataset& dataset, const Part& part) {
  const store::Location first = dataset.location(part.first_sample);
  const store::Location last = dataset.location(part.first_sample + part.count - 1);
  const store::ChunkInfo& chunk = dataset.chunk(part.chunk);
  const uint64_t end = std::min(last.offset + last.length, chunk.offset + chunk.bytes);
  // Samples lie in the order of their numbers; what breaks that is read one by one.
  if (first.offset >= end) return {};
  return {.offset = first.offset, .length = end - first.offset, .data = nullptr, .memory = {}};
}

uint64_t Share::steps() const {
  if (!step_ends.empty()) return step_ends.size();
  return (end + global_batch - 1) / global_batch;
}

uint64_t Share::begin_of(uint64_t step) const {
  if (step_ends.empty()) return step * global_batch;
  return step == 0 ? 0 : step_ends[step - 1];
}

uint64_t Share::end_of(uint64_t step) const {
  return step_ends.empty() ? std::min((step + 1) * global_batch, end) : step_ends[step];
}

std::optional<uint64_t> Share::step_at(uint64_t position) const {
  if (position >= end) return position == end ? std::optional(steps()) : std::nullopt;
  uint64_t step = position / global_batch;
  if (!step_ends.empty()) {
    const auto after = std::ranges::upper_bound(step_ends, position);
    step = static_cast<uint64_t>(after - step_ends.begin());
  }
  return begin_of(step) == position ? std::optional(step) : std::nullopt;
}

Planner::Planner(std::shared_ptr<const store::Dataset> dataset, const FeedOptions& options)
    : dataset_(std::move(dataset)),
      order_{.seed = options.seed,
             .shuffle = options.shuffle,
             .lanes = options.lanes,
             .group_bytes = options.group_bytes,
             .repeats = 0},
      share_{.global_batch = options.global_batch,
             .rank = static_cast<uint64_t>(options.rank),
             .world_size = static_cast<uint64_t>(options.world_size),
             .end = end_of_epoch(options, dataset_->sample_count()),
             .step_ends = options.step_ends},
      goes_on_(options.next_epoch) {
  for (uint32_t number = 0; number < dataset_->chunk_count(); ++number) {
    const store::ChunkInfo& chunk = dataset_->chunk(number);
    chunks_.push_back(
        {.first_sample = chunk.first_sample, .samples = chunk.samples, .bytes = chunk.bytes});
    bytes_ += chunks_.back().bytes;
  }
  const uint64_t size = dataset_->sample_count();
  if (size < 2 * chunks_.size()) {
    order_.group_bytes = std::min(order_.group_bytes, kGroupBytesOfFiles);
  }
  order_.repeats = share_.end > size ? share_.end - size : 0;
}

uint64_t Planner::bytes_of(const Order& order, const Group& group) const {
  uint64_t bytes = group.count * sizeof(uint32_t);  // its permutation
  for (const Part& part : order.parts(group)) bytes += span_of(*dataset_, part).length;
  return bytes;
}

Result<std::shared_ptr<EpochPlan>> Planner::plan(uint64_t epoch, uint64_t start) const {
  auto plan = std::make_shared<EpochPlan>();
  plan->epoch = epoch;
  ASSIGN_OR_RETURN(plan->order, Order::make(chunks_, order_, epoch));
  const Order& order = plan->order;
  plan->load_of_group.resize(order.groups().size());
  for (size_t number = 0; number < order.groups().size(); ++number) {
    const Group& group = order.groups()[number];
    const Uses uses = uses_of_lane(share_, order.lanes(), group.lane);
    const uint64_t last =
        std::min(group.first_index + group.count, index_of(share_.end, order.lanes(), group.lane));
    const uint64_t from = uses.below(group.first_index);
    const uint64_t to = uses.below(last);
    if (!uses.any || from >= to) continue;
    const uint64_t done =
        std::clamp(uses.below(index_of(start, order.lanes(), group.lane)), from, to);
    auto load = std::make_unique<Load>();
    load->group = number;
    load->first_position = uses.at(from) * order.lanes() + group.lane;
    load->bytes = bytes_of(order, group);
    load->uses_left = to - done;
    plan->loads.push_back(std::move(load));
  }
  std::ranges::sort(plan->loads, {}, [](const auto& load) { return load->first_position; });
  plan->bytes_needed = bytes_needed(*plan);
  std::erase_if(plan->loads, [](const auto& load) { return load->uses_left == 0; });
  for (const auto& load : plan->loads) plan->load_of_group[load->group] = load.get();
  return plan;
}

}  // namespace forebay::feed
