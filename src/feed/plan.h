// What one rank needs of an epoch, and when: its positions, and the groups to load for them.
#pragma once

#include <atomic>
#include <memory>

#include "feed/feed.h"
#include "feed/order.h"
#include "io/large_buffer.h"

namespace forebay::feed {

// Which positions each step takes, and which of them are this rank's: those that are `rank` modulo
// `world_size`. Steps take the positions below `end` one after the other.
struct Share {
  uint64_t global_batch = 1;
  uint64_t rank = 0;
  uint64_t world_size = 1;
  uint64_t end = 0;
  std::vector<uint64_t> step_ends;  // empty: each step takes a global batch, the last what is left

  // Slots of a step on this rank.
  uint64_t batch() const { return global_batch / world_size; }
  uint64_t steps() const;
  uint64_t begin_of(uint64_t step) const;
  uint64_t end_of(uint64_t step) const;
  // The position of a slot; at end_of(step) or after it where the slot is empty.
  uint64_t position(uint64_t step, uint64_t slot) const {
    return begin_of(step) + slot * world_size + rank;
  }
  // The step that begins at a position, steps() at the end; empty where none begins.
  std::optional<uint64_t> step_at(uint64_t position) const;
};

// The bytes of a part of a chunk; `data` is null where they could not be read in one piece.
struct PartBytes {
  uint64_t offset = 0;  // in the chunk's file
  uint64_t length = 0;
  const uint8_t* data = nullptr;  // in `memory`
  io::LargeBuffer memory;
};

// A group that this rank needs, from its first use to its last.
struct Load {
  size_t group = 0;             // in Order::groups()
  uint64_t first_position = 0;  // of this rank's uses
  uint64_t bytes = 0;
  // The rest belongs to the window (feed/window.h).
  std::atomic<uint64_t> uses_left = 0;
  std::atomic<bool> loaded = false;  // and then, until uses_left is 0, these do not change:
  Status status;
  std::vector<PartBytes> parts;
  std::vector<uint32_t> permutation;
};

// One epoch of one rank.
struct EpochPlan {
  uint64_t epoch = 0;
  Order order;
  std::vector<std::unique_ptr<Load>> loads;  // in the order of their first use
  std::vector<Load*> load_of_group;          // empty where this rank does not need the group
  // The most bytes of groups that are in use at the same moment, from the epoch's beginning.
  uint64_t bytes_needed = 0;
};

// Plans epochs; what does not change between them is kept.
class Planner {
 public:
  Planner(std::shared_ptr<const store::Dataset> dataset, const FeedOptions& options);
  const Share& share() const { return share_; }
  // Whether an epoch is prepared after this one; the last has the largest number that fits.
  bool goes_on(uint64_t epoch) const { return goes_on_ && epoch < UINT32_MAX; }
  // Of all chunks that an epoch reads.
  uint64_t bytes() const { return bytes_; }
  // Without the loads that only positions below `start` need.
  Result<std::shared_ptr<EpochPlan>> plan(uint64_t epoch, uint64_t start) const;

 private:
  uint64_t bytes_of(const Order& order, const Group& group) const;

  std::shared_ptr<const store::Dataset> dataset_;
  OrderOptions order_;
  Share share_;
  std::vector<ChunkSize> chunks_;
  bool goes_on_ = true;
  uint64_t bytes_ = 0;
};

// The bytes of a chunk from the first to the last image of a part.
PartBytes span_of(const store::Dataset& dataset, const Part& part);

}  // namespace forebay::feed
