// The order of an epoch: which sample stands at which global position. Pure: it depends on the
// chunks' sizes, the seed, the epoch and the options, never on paths, ranks or threads.
// How it is made and why: docs/feed.md.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"

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
  // Positions that follow the last sample's; in each lane they begin the lane's order again.
  uint64_t repeats = 0;
};

// Samples of one chunk that stand side by side.
struct Part {
  uint32_t chunk = 0;
  uint64_t first_sample = 0;  // in the dataset
  uint32_t count = 0;
  uint64_t before = 0;  // samples of the group in the parts before it
};

// Parts of one lane that are shuffled together.
struct Group {
  uint32_t lane = 0;
  uint32_t number = 0;       // in the lane
  uint64_t first_index = 0;  // in the lane, of its first sample
  uint64_t count = 0;
  size_t first_part = 0;
  size_t part_count = 0;
  bool in_order = false;  // its parts are one sample each, already in the epoch's order
};

// Position p is the (p / L)-th sample of lane p mod L. Immutable; any thread may call anything.
class Order {
 public:
  // A sample of a group: the part that holds it, and its number in the dataset.
  struct Place {
    size_t part = 0;  // in parts(group)
    uint64_t sample = 0;
  };

  // `epoch` below 2^32. Errors: kInvalid, when a lane has 2^24 groups or more.
  static Result<Order> make(std::span<const ChunkSize> chunks, const OrderOptions& options,
                            uint64_t epoch);

  // Samples, each of which has one position below it; `repeats` further positions follow.
  uint64_t size() const { return size_; }
  uint32_t lanes() const { return lanes_; }
  // Samples of the lane, each counted once.
  uint64_t lane_size(uint32_t lane) const;
  // By lane, then by number.
  std::span<const Group> groups() const { return groups_; }
  std::span<const Part> parts(const Group& group) const;
  // The place in groups() of the group that holds the `index`-th sample of `lane`.
  size_t group_of(uint32_t lane, uint64_t index) const;
  // How the group's samples are shuffled; empty when they are not. Costs a shuffle: keep it.
  std::vector<uint32_t> permutation(const Group& group) const;
  // The `at`-th sample of the group in its shuffled order.
  Place place(const Group& group, std::span<const uint32_t> permutation, uint64_t at) const;
  // The sample at a position below size() + repeats. Shuffles the whole group at each call.
  uint64_t sample_at(uint64_t position) const;

 private:
  class Cutter;

  uint64_t repeats_of(uint32_t lane, uint64_t repeats) const;

  uint64_t size_ = 0;
  uint64_t seed_ = 0;
  uint64_t epoch_ = 0;
  bool shuffle_ = true;
  uint32_t lanes_ = 1;
  std::vector<Part> parts_;
  std::vector<Group> groups_;
  std::vector<size_t> lane_groups_;  // where a lane's groups begin; one more at the end
};

}  // namespace forebay::feed
