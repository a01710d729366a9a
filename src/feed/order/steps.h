// Which positions of an epoch each step takes, and which of them are this rank's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace forebay::feed {

// Steps take the positions below `end` one after the other; a rank has those positions of a step
// that are `rank` modulo `world_size`. Immutable; any thread may call anything.
struct Steps {
  uint64_t global_batch = 1;
  uint64_t rank = 0;
  uint64_t world_size = 1;
  uint64_t end = 0;
  // Empty: each step takes global_batch positions, the last one what is left.
  std::vector<uint64_t> step_ends;

  // Slots of a step on each rank: as many as its share of the global batch, but no more than the
  // largest step of the epoch fills on any rank.
  uint64_t batch() const {
    return std::min(global_batch / world_size, (end + world_size - 1) / world_size);
  }
  uint64_t count() const;
  uint64_t begin_of(uint64_t step) const;
  uint64_t end_of(uint64_t step) const;
  // Whether the position is this rank's; steps begin at multiples of the world size.
  bool has(uint64_t position) const { return position % world_size == rank; }
  // The position of a slot; if it is not below end_of(step), the slot is empty.
  uint64_t position(uint64_t step, uint64_t slot) const {
    return begin_of(step) + slot * world_size + rank;
  }
  // The step that begins at a position, count() at the end; empty if no step begins there.
  std::optional<uint64_t> step_at(uint64_t position) const;
};

}  // namespace forebay::feed
