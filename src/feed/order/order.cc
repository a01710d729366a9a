#include "feed/order/order.h"

#include <algorithm>
#include <numeric>

namespace forebay::feed {

using base::Code;
using base::fail;
using base::Purpose;
using base::Random;

namespace {

// A group's number and its lane share the 48 bits that name a stream of random numbers.
constexpr uint32_t kGroupBits = 24;

// The estimate by which groups are cut. It is known without reading anything, and good enough.
uint64_t bytes_per_sample(const ChunkSize& chunk) {
  return std::max<uint64_t>(1, chunk.bytes / chunk.samples);
}

std::vector<uint32_t> chunk_order(std::span<const ChunkSize> chunks, const OrderOptions& options,
                                  uint64_t epoch) {
  std::vector<uint32_t> numbers(chunks.size());
  std::iota(numbers.begin(), numbers.end(), 0u);
  if (options.shuffle) {
    Random random(options.seed, Purpose::kChunkOrder, epoch);
    base::shuffle(std::span(numbers), random);
  }
  std::erase_if(numbers, [&](uint32_t number) { return chunks[number].samples == 0; });
  return numbers;
}

// Groups are not smaller than the average chunk: a read of a few samples here and there costs more
// than the memory it saves.
uint64_t full_budget(std::span<const ChunkSize> chunks, uint64_t group_bytes) {
  uint64_t bytes = 0;
  for (const ChunkSize& chunk : chunks) bytes += chunk.bytes;
  return std::max(group_bytes, chunks.empty() ? 0 : bytes / chunks.size());
}

}  // namespace

// Cuts the line of chunks into lanes, and each lane into groups of a budget of bytes. A chunk on
// a border is shared, so that all groups but a lane's first and last are equally long and the
// lanes stay out of step for the whole epoch.
class Order::Cutter {
 public:
  Cutter(std::span<const ChunkSize> chunks, std::vector<uint32_t> line, Order* out)
      : chunks_(chunks), line_(std::move(line)), out_(*out) {}

  void cut_lane(uint32_t lane, uint64_t first_budget, uint64_t budget) {
    uint64_t left = out_.lane_size(lane);
    uint32_t number = 0;
    uint64_t index = 0;
    while (left > 0) {
      Group group{.lane = lane, .number = number, .first_index = index};
      group.first_stretch = out_.stretches_.size();
      fill(&group, number == 0 ? first_budget : budget, left);
      left -= group.count;
      index += group.count;
      ++number;
      out_.groups_.push_back(group);
    }
  }

  // One lane in storage order: groups of whole chunks, small ones together.
  void cut_in_order(uint64_t budget) {
    uint64_t index = 0;
    for (uint32_t number = 0; at_ < line_.size(); ++number) {
      Group group{.lane = 0, .number = number, .first_index = index};
      group.first_stretch = out_.stretches_.size();
      uint64_t bytes = 0;
      do {
        bytes += chunks_[line_[at_]].bytes;
        take(&group, chunks_[line_[at_]].samples);
      } while (at_ < line_.size() && bytes + chunks_[line_[at_]].bytes <= budget);
      index += group.count;
      out_.groups_.push_back(group);
    }
  }

  // Adds a group that repeats the lane's first samples, and the whole lane several times if it has
  // too few.
  void repeat_lane(uint32_t lane, uint64_t repeats) {
    if (repeats == 0) return;
    Group group{.lane = lane, .first_index = out_.lane_size(lane), .count = repeats};
    group.number = static_cast<uint32_t>(out_.groups_.size() - out_.lane_groups_[lane]);
    group.first_stretch = out_.stretches_.size();
    group.stretch_count = repeats;
    group.in_order = true;
    for (size_t from = out_.lane_groups_[lane]; repeats > 0; ++from) {
      if (from == out_.groups_.size()) from = out_.lane_groups_[lane];
      const Group source = out_.groups_[from];
      const std::vector<uint32_t> permutation = out_.permutation(source);
      const uint64_t count = std::min(repeats, source.count);
      for (uint64_t at = 0; at < count; ++at) repeat(source, permutation, at, &group);
      repeats -= count;
    }
    out_.groups_.push_back(group);
  }

 private:
  void repeat(const Group& source, std::span<const uint32_t> permutation, uint64_t at,
              Group* group) {
    const GroupSample place = out_.place(source, permutation, at);
    out_.stretches_.push_back({.chunk = out_.stretches(source)[place.stretch].chunk,
                               .first_sample = place.sample,
                               .last_sample = place.sample,
                               .count = 1,
                               .before = out_.stretches_.size() - group->first_stretch});
  }

  void fill(Group* group, uint64_t budget, uint64_t left) {
    uint64_t bytes = 0;
    while (group->count < left) {
      const ChunkSize& chunk = chunks_[line_[at_]];
      const uint64_t each = bytes_per_sample(chunk);
      uint64_t fit = bytes < budget ? (budget - bytes) / each : 0;
      if (fit == 0 && group->count > 0) return;
      fit = std::max<uint64_t>(fit, 1);
      const uint64_t count = std::min({fit, left - group->count, uint64_t{chunk.samples} - taken_});
      bytes += count * each;
      take(group, static_cast<uint32_t>(count));
    }
  }

  void take(Group* group, uint32_t count) {
    const ChunkSize& chunk = chunks_[line_[at_]];
    const uint64_t first = chunk.first_sample + taken_;
    out_.stretches_.push_back({.chunk = line_[at_],
                               .first_sample = first,
                               .last_sample = first + count - 1,
                               .count = count,
                               .before = group->count});
    ++group->stretch_count;
    group->count += count;
    taken_ += count;
    if (taken_ == chunk.samples) {
      taken_ = 0;
      ++at_;
    }
  }

  std::span<const ChunkSize> chunks_;
  std::vector<uint32_t> line_;
  Order& out_;
  size_t at_ = 0;       // index in line_
  uint32_t taken_ = 0;  // number of the chunk's samples that were taken
};

// Cuts a list into stretches, and these into groups of a budget of bytes.
class Order::ListCutter {
 public:
  ListCutter(const store::Dataset& dataset, uint64_t budget, uint64_t stretch_bytes_max, Order* out)
      : dataset_(dataset), budget_(budget), stretch_bytes_max_(stretch_bytes_max), out_(*out) {}

  // Adds the next sample of the list.
  void add(uint64_t sample) {
    const store::Location next = dataset_.location(sample);
    const uint64_t end = next.offset + next.length;
    if (!joins(next)) {
      finish_stretch();
      stretch_ = {.chunk = next.chunk, .first_sample = sample};
      begin_ = next.offset;
    }
    ++stretch_.count;
    stretch_.last_sample = sample;
    end_ = end;
  }

  // Ends the list; no sample may be added after this.
  void finish() {
    finish_stretch();
    finish_group();
  }

 private:
  bool joins(const store::Location& next) const {
    return stretch_.count > 0 && next.chunk == stretch_.chunk && next.offset >= end_ &&
           next.offset - end_ <= kGapBytes &&
           next.offset + next.length - begin_ <= stretch_bytes_max_;
  }

  void finish_stretch() {
    if (stretch_.count == 0) return;
    const uint64_t bytes = end_ - begin_;
    if (group_.count > 0 && bytes_ + bytes > budget_) finish_group();
    stretch_.before = group_.count;
    out_.stretches_.push_back(stretch_);
    ++group_.stretch_count;
    group_.count += stretch_.count;
    bytes_ += bytes;
    stretch_ = {};
  }

  void finish_group() {
    if (group_.count == 0) return;
    out_.groups_.push_back(group_);
    group_ = {.number = group_.number + 1,
              .first_index = group_.first_index + group_.count,
              .first_stretch = out_.stretches_.size(),
              .in_order = true};
    bytes_ = 0;
  }

  const store::Dataset& dataset_;
  const uint64_t budget_;
  const uint64_t stretch_bytes_max_;
  Order& out_;
  Group group_{.in_order = true};
  uint64_t bytes_ = 0;  // bytes of the group
  Stretch stretch_;     // the stretch that samples join
  uint64_t begin_ = 0;  // where the stretch begins in its chunk's file
  uint64_t end_ = 0;    // where its last sample ends in the file
};

Result<Order> Order::make(std::span<const ChunkSize> chunks, const OrderOptions& options,
                          uint64_t epoch) {
  Order order;
  for (const ChunkSize& chunk : chunks) order.size_ += chunk.samples;
  order.seed_ = options.seed;
  order.epoch_ = epoch;
  order.shuffle_ = options.shuffle;
  order.lanes_ =
      options.shuffle
          ? static_cast<uint32_t>(std::clamp<uint64_t>(order.size_, 1, std::max(1u, options.lanes)))
          : 1;
  Cutter cutter(chunks, chunk_order(chunks, options, epoch), &order);
  const uint64_t budget = full_budget(chunks, options.group_bytes);
  for (uint32_t lane = 0; lane < order.lanes_; ++lane) {
    order.lane_groups_.push_back(order.groups_.size());
    if (options.shuffle) {
      cutter.cut_lane(lane, budget / order.lanes_ * (lane + 1), budget);
    } else {
      cutter.cut_in_order(std::min(kGroupBytesInOrder, options.group_bytes));
    }
    cutter.repeat_lane(lane, order.repeats_of(lane, options.repeats));
    const size_t count = order.groups_.size() - order.lane_groups_.back();
    if (options.shuffle && count >> kGroupBits != 0) {
      return fail(Code::kInvalid, "feed: a lane has {} groups, more than {}; raise group_bytes",
                  count, (1u << kGroupBits) - 1);
    }
  }
  order.lane_groups_.push_back(order.groups_.size());
  return order;
}

Order Order::make_listed(const store::Dataset& dataset, std::shared_ptr<const SampleList> list,
                         const OrderOptions& options, uint64_t stretch_bytes_max) {
  Order order;
  order.size_ = list->samples.size();
  order.shuffle_ = false;
  order.list_ = std::move(list);
  const std::vector<uint64_t>& samples = order.list_->samples;
  ListCutter cutter(dataset, std::min(kGroupBytesInOrder, options.group_bytes), stretch_bytes_max,
                    &order);
  const uint64_t end = samples.empty() ? 0 : samples.size() + options.repeats;
  for (uint64_t at = 0; at < end; ++at) cutter.add(samples[at % samples.size()]);
  cutter.finish();
  order.lane_groups_ = {0, order.groups_.size()};
  return order;
}

uint64_t Order::lane_size(uint32_t lane) const {
  return size_ <= lane ? 0 : (size_ - lane + lanes_ - 1) / lanes_;
}

// How many of the `repeats` positions after the last sample's are the lane's.
uint64_t Order::repeats_of(uint32_t lane, uint64_t repeats) const {
  const uint64_t end = size_ + repeats;
  return size_ == 0 ? 0 : (end - lane + lanes_ - 1) / lanes_ - lane_size(lane);
}

std::span<const Stretch> Order::stretches(const Group& group) const {
  return std::span(stretches_).subspan(group.first_stretch, group.stretch_count);
}

size_t Order::group_of(uint32_t lane, uint64_t index) const {
  const auto begin = groups_.begin() + static_cast<ptrdiff_t>(lane_groups_[lane]);
  const auto end = groups_.begin() + static_cast<ptrdiff_t>(lane_groups_[lane + 1]);
  const auto after = std::upper_bound(
      begin, end, index, [](uint64_t at, const Group& group) { return at < group.first_index; });
  return static_cast<size_t>(after - groups_.begin()) - 1;
}

std::vector<uint32_t> Order::permutation(const Group& group) const {
  if (!shuffle_ || group.in_order) return {};
  std::vector<uint32_t> out(group.count);
  std::iota(out.begin(), out.end(), 0u);
  Random random(seed_, Purpose::kGroupOrder, epoch_,
                uint64_t{group.lane} << kGroupBits | group.number);
  base::shuffle(std::span(out), random);
  return out;
}

Order::GroupSample Order::place(const Group& group, std::span<const uint32_t> permutation,
                                uint64_t at) const {
  const uint64_t ordinal = permutation.empty() ? at : permutation[at];
  const auto all = stretches(group);
  const auto after = std::ranges::upper_bound(all, ordinal, {}, &Stretch::before);
  const Stretch& stretch = *(after - 1);
  const uint64_t sample = list_ != nullptr ? list_->samples[(group.first_index + ordinal) % size_]
                                           : stretch.first_sample + ordinal - stretch.before;
  return {.stretch = static_cast<size_t>(after - all.begin()) - 1, .sample = sample};
}

uint64_t Order::sample_at(uint64_t position) const {
  if (list_ != nullptr) return list_->samples[position % size_];
  const auto lane = static_cast<uint32_t>(position % lanes_);
  const uint64_t index = position / lanes_;
  const Group& group = groups_[group_of(lane, index)];
  return place(group, permutation(group), index - group.first_index).sample;
}

std::vector<uint64_t> Order::samples(uint64_t end) const {
  std::vector<uint64_t> out(end);
  for (const Group& group : groups_) {
    const auto permutation = this->permutation(group);
    for (uint64_t at = 0; at < group.count; ++at) {
      const uint64_t position = (group.first_index + at) * lanes_ + group.lane;
      if (position < end) out[position] = place(group, permutation, at).sample;
    }
  }
  return out;
}

uint64_t Order::drawn_for(uint64_t position, uint64_t sample) const {
  if (list_ == nullptr || list_->drawn_for.empty()) return sample;
  return list_->drawn_for[position % size_];
}

}  // namespace forebay::feed
