// The order of an epoch: which sample stands at which global position. Pure: it depends on the
// dataset's content, the seed, the epoch and the options, never on paths, ranks or threads. How it
// is made and why: docs/feed.md. What it is made from: feed/order/order_source.h.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "feed/order/sample_list.h"
#include "store/dataset.h"

namespace forebay::feed {

using base::Result;
using base::Status;

struct ChunkSize {
  uint64_t first_sample = 0;  // in the dataset
  uint32_t samples = 0;
  uint64_t bytes = 0;
};

struct OrderOptions {
  uint64_t seed = 0;
  bool shuffle = true;  // false: position p is sample p
  uint32_t lanes = 8;
  uint64_t group_bytes = 64'000'000;
  // Further positions after the last sample's; in each lane they repeat the lane's order from its
  // beginning.
  uint64_t repeats = 0;
};

// Samples of a group that lie after each other in one chunk and are read as one run of bytes. If
// the order is a list, samples that are not in the list may lie between them.
struct Stretch {
  uint32_t chunk = 0;
  uint64_t first_sample = 0;  // in the dataset
  uint64_t last_sample = 0;   // in the dataset
  uint32_t count = 0;
  uint64_t before = 0;  // samples of the group in the stretches before it
};

// Stretches of one lane that are in memory together. In a shuffled order they are shuffled
// together.
struct Group {
  uint32_t lane = 0;
  uint32_t number = 0;       // in the lane
  uint64_t first_index = 0;  // index in the lane of its first sample
  uint64_t count = 0;
  size_t first_stretch = 0;
  size_t stretch_count = 0;
  bool in_order = false;  // its stretches are already in the epoch's order, sample by sample
};

// Position p is the (p / L)-th sample of lane p mod L. Immutable; any thread may call anything.
class Order {
 public:
  // A sample of a group: the stretch that holds it, and its number in the dataset.
  struct GroupSample {
    size_t stretch = 0;  // in stretches(group)
    uint64_t sample = 0;
  };

  // Each sample once. `epoch` below 2^32. Errors: kInvalid, when a lane has 2^24 groups or more.
  static Result<Order> make(std::span<const ChunkSize> chunks, const OrderOptions& options,
                            uint64_t epoch);
  // The samples of a list, in its order, as one lane; the list suits the dataset (check_list).
  // Samples that lie close after each other in a chunk make a stretch of at most
  // `stretch_bytes_max`, or of one sample. Only group_bytes and repeats of the options are used.
  static Order make_listed(const store::Dataset& dataset, std::shared_ptr<const SampleList> list,
                           const OrderOptions& options, uint64_t stretch_bytes_max);

  // The number of samples, which have the positions below it; `repeats` further positions follow.
  uint64_t size() const { return size_; }
  uint32_t lanes() const { return lanes_; }
  bool is_shuffled() const { return shuffle_; }
  // Whether it is made from a list, rather than of each sample once.
  bool is_listed() const { return list_ != nullptr; }
  // Samples of the lane, without repeated ones.
  uint64_t lane_size(uint32_t lane) const;
  // The groups, in the order of their lanes, and within a lane in the order of their numbers.
  std::span<const Group> groups() const { return groups_; }
  std::span<const Stretch> stretches(const Group& group) const;
  // The index in groups() of the group that holds the `index`-th sample of `lane`.
  size_t group_of(uint32_t lane, uint64_t index) const;
  // How the group's samples are shuffled; empty if they are not. Costs a shuffle, so keep the
  // result.
  std::vector<uint32_t> permutation(const Group& group) const;
  // The `at`-th sample of the group in its shuffled order.
  GroupSample place(const Group& group, std::span<const uint32_t> permutation, uint64_t at) const;
  // The sample at a position below size() + repeats. Shuffles the whole group at each call.
  uint64_t sample_at(uint64_t position) const;
  // The samples at the positions below `end`, which is at most size() + repeats.
  std::vector<uint64_t> samples(uint64_t end) const;
  // The number below 2^48 that the augmentation of `sample`, at `position`, is drawn for.
  uint64_t drawn_for(uint64_t position, uint64_t sample) const;

 private:
  class Cutter;
  class ListCutter;

  uint64_t repeats_of(uint32_t lane, uint64_t repeats) const;

  uint64_t size_ = 0;
  uint64_t seed_ = 0;
  uint64_t epoch_ = 0;
  bool shuffle_ = true;
  uint32_t lanes_ = 1;
  std::vector<Stretch> stretches_;
  std::vector<Group> groups_;
  std::vector<size_t> lane_groups_;         // where a lane's groups begin; one more at the end
  std::shared_ptr<const SampleList> list_;  // null: each sample once
};

// The random numbers that a sample's augmentation is drawn from; `drawn_for` is that of
// Order::drawn_for().
inline base::Random augmentation(uint64_t seed, uint64_t epoch, uint64_t drawn_for) {
  return {seed, base::Purpose::kAugment, epoch, drawn_for};
}

// The most bytes of a group of an unshuffled order, unless one stretch has more: enough for readers
// to be ahead.
inline constexpr uint64_t kGroupBytesInOrder = 4'000'000;
// The largest gap in bytes between two samples of a list that is cheaper to read than to leave out.
inline constexpr uint64_t kGapBytes = 256 << 10;

}  // namespace forebay::feed
