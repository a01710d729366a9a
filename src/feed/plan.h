// What one rank needs of an epoch, and when: its positions, and the groups to load for them. Plain
// data; what is in memory is the business of feed/reading.h.
#pragma once

#include <memory>
#include <vector>

#include "feed/options.h"
#include "feed/order.h"
#include "feed/steps.h"
#include "store/dataset.h"

namespace forebay::feed {

// A group that this rank needs, from its first use to its last.
struct Load {
  size_t group = 0;             // index in Order::groups()
  uint64_t first_position = 0;  // the epoch's first position at which this rank uses the group
  uint64_t uses = 0;            // this rank's positions in the group, from the plan's start on
  uint64_t bytes = 0;           // memory that it takes
};

inline constexpr size_t kNoLoad = SIZE_MAX;

// One epoch of one rank. Never changed once it is made.
struct EpochPlan {
  uint64_t epoch = 0;
  Order order;
  std::vector<Load> loads;            // sorted by first_position
  std::vector<size_t> load_of_group;  // index in `loads`; kNoLoad if this rank does not need it
  // The most bytes of groups that are in use at the same moment, from the epoch's beginning on. It
  // is the same for all epochs of a weighted order.
  uint64_t bytes_needed = 0;
  // Bytes of everything that the epoch reads, on all ranks.
  uint64_t bytes = 0;
};

// Plans epochs, and keeps what does not change between them. Any thread may call anything.
class Planner {
 public:
  // The source suits the dataset (check_source).
  Planner(std::shared_ptr<const store::Dataset> dataset, const FeedOptions& options,
          OrderSource source);
  const Steps& steps() const { return steps_; }
  // Whether an epoch is prepared after this one; the last has the largest number that fits.
  bool goes_on(uint64_t epoch) const { return goes_on_ && epoch < UINT32_MAX; }
  // Leaves out the loads that only positions below `start` need. Errors: those of Order::make().
  Result<std::shared_ptr<const EpochPlan>> plan(uint64_t epoch, uint64_t start) const;

 private:
  uint64_t bytes_of(const Order& order, const Group& group) const;
  uint64_t bytes_of(const Order& order) const;
  uint64_t drawn_bytes_needed() const;

  std::shared_ptr<const store::Dataset> dataset_;
  OrderSource source_;
  OrderOptions order_;
  Steps steps_;
  bool goes_on_ = true;
};

// A run of bytes in a chunk's file.
struct FileRange {
  uint64_t offset = 0;
  uint64_t length = 0;
};

// Returns where the images of a stretch lie in their file, from the first to the last; an empty
// range if they must be read one by one.
FileRange range_of(const store::Dataset& dataset, const Stretch& stretch);

}  // namespace forebay::feed
