// The parts of an epoch that are in memory: values that the reading stage (feed/read/reading.h)
// fills and others read.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "feed/read/plan.h"
#include "feed/read/read_ahead.h"
#include "feed/read/slicer.h"
#include "feed/read/spare_buffers.h"
#include "io/origin.h"

namespace forebay::feed {

// The bytes of a stretch; `data` is null if they cannot be read in one piece.
struct StretchBytes {
  FileRange range;          // in the chunk's file
  uint8_t* data = nullptr;  // in LoadedGroup::memory
  bool is_lost = false;     // the file is too short, or not the one that was listed

  const uint8_t* loaded() const { return is_lost ? nullptr : data; }
};

// A group, or a slice of one, in memory or on its way there.
struct LoadedGroup {
  std::atomic<uint64_t> uses_left = 0;
  std::atomic<bool> loaded = false;
  // From `loaded` until uses_left is 0 these do not change; before, they belong to the stage.
  Status status;
  std::vector<StretchBytes> stretches;  // like Order::stretches(), or Slice::runs
  io::LargeBuffer memory;
  uint64_t bytes = 0;                   // that count as its memory
  std::vector<uint32_t> permutation;    // Order::permutation(), of a group
  std::unique_ptr<const Slice> slice;   // null for a group
  std::shared_ptr<SlicedGroup> shared;  // what the slices of one group share; null for a group
};

// An epoch's plan and the data of its loads.
struct EpochData {
  explicit EpochData(std::shared_ptr<const EpochPlan> epoch_plan);

  const std::shared_ptr<const EpochPlan> plan;
  std::vector<LoadedGroup> loads;  // like EpochPlan::loads
  // By group number. It belongs to the stage.
  std::map<size_t, std::weak_ptr<SlicedGroup>> sliced_groups;
};

// The order in which the group of a load is shuffled (Order::permutation).
std::vector<uint32_t> permutation_of(const EpochData& epoch, size_t load);
// Lists the stretches of a load's group, or the runs of its slice, and gives them memory: one
// buffer for all, because they come and go together. Throws std::bad_alloc.
void make_room(const store::Dataset& dataset, store::Caching caching, SpareBuffers& spare,
               EpochData& epoch, size_t load);
// The reads that fill the memory of a load.
std::deque<PieceRead> reads_of(const EpochData& epoch, const LoadId& id);
// The ranges of a read, and the memory that they go to.
std::vector<io::Range> ranges_of(const LoadedGroup& group, const PieceRead& read);
// The bytes from the first of a read's stretches to the last.
FileRange extent_of(const LoadedGroup& group, const PieceRead& read);
// The number of the chunk that is read.
uint32_t chunk_of(const EpochData& epoch, const PieceRead& read);

}  // namespace forebay::feed
