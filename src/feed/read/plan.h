// What one rank needs of an epoch, and when: its positions, and the groups, or slices of groups, to
// load for them. Plain data; feed/read/reading.h brings it into memory.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "feed/batch/options.h"
#include "feed/order/order.h"
#include "feed/order/step_schedule.h"
#include "feed/order/steps.h"
#include "store/dataset.h"

namespace forebay::feed {

// A group that this rank needs, from its first use to its last; or a slice of one, which has only
// the samples of a few uses that follow each other.
struct Load {
  size_t group = 0;             // index in Order::groups()
  uint32_t lane = 0;            // of the group
  uint64_t first_position = 0;  // the epoch's first position at which this rank uses the load
  uint64_t first = 0;           // index in the group of the first use from the plan's start on
  uint64_t stride = 1;          // from one use to the next, in the group
  uint64_t uses = 0;            // this rank's positions in the load, from the plan's start on
  uint64_t bytes = 0;           // memory that it takes; only an estimate for a slice
  bool is_slice = false;
};

inline constexpr size_t kNoLoad = SIZE_MAX;

// Where the loads of a group are.
struct LoadsOfGroup {
  size_t begin = 0;    // in EpochPlan::load_numbers
  uint64_t first = 0;  // index in the group of the first load's first use
  uint64_t span = 1;   // indices of the group for each load
};

// A run of steps of one epoch, for one rank. Never changed once it is made.
struct EpochPlan {
  uint64_t epoch = 0;
  StepRun run = {};
  std::shared_ptr<const Order> order;
  std::vector<Load> loads;  // sorted by first_position
  std::vector<LoadsOfGroup>
      loads_of_group;  // like Order::groups(); set for groups that this rank needs
  std::vector<size_t>
      load_numbers;  // indices in `loads`; kNoLoad if only earlier positions need it
  bool has_slices = false;
  // The most bytes of loads that are in use at the same moment, from the epoch's beginning on to
  // the run's end. It is the same for all epochs of a weighted order.
  uint64_t bytes_needed = 0;
  // Bytes of everything that the epoch reads, on all ranks; 0 for a single step.
  uint64_t bytes = 0;

  // The number in `loads` of the load that holds the `at`-th sample of a group, which is this
  // rank's.
  size_t load_of(size_t group, uint64_t at) const {
    const LoadsOfGroup& of = loads_of_group[group];
    return load_numbers[of.begin + (at - of.first) / of.span];
  }
  // The number of the load that holds the sample at a position, which is this rank's.
  size_t load_at(uint64_t position) const {
    const auto lane = static_cast<uint32_t>(position % order->lanes());
    const uint64_t index = position / order->lanes();
    const size_t group = order->group_of(lane, index);
    return load_of(group, index - order->groups()[group].first_index);
  }
};

// Samples of at least this mean size are read in slices if they come over a network. The ranges of
// smaller ones would cost more than the slices save: a range costs about 160 bytes and some
// microseconds on both sides.
inline constexpr uint64_t kSlicedSampleBytes = 8 << 10;
// About the bytes of a slice's whole samples: enough for a request to be worth its round trip, and
// little enough that a batch waits for few samples that it does not need.
inline constexpr uint64_t kSliceBytes = 512 << 10;

// What kind of runs of steps a planner plans.
enum class Runs : uint8_t {
  kEpochs,  // epochs, or what is left of one
  // Single steps from anywhere: nothing is read but their samples, in slices.
  kSteps,
};

// The steps of an epoch of this number of samples, if all steps have the same number of samples.
Steps steps_of(const FeedOptions& options, uint64_t samples);
// The samples of an epoch of FeedOptions::order at all positions, of all ranks, without reading an
// image. Errors: those of make_order().
Result<std::vector<uint64_t>> samples_of_epoch(const store::Dataset& dataset,
                                               const FeedOptions& options, uint64_t epoch,
                                               const io::ReadOptions& read = {});

// Plans epochs, and keeps what does not change between them. Any thread may call anything.
class Planner {
 public:
  // The source must suit the dataset (check_source).
  Planner(std::shared_ptr<const store::Dataset> dataset, const FeedOptions& options,
          OrderSource source, Runs runs = Runs::kEpochs);
  const Steps& steps() const { return steps_; }
  // Whether any chunk of the dataset comes over a network.
  bool is_remote() const { return is_remote_; }
  // Whether slices may have to be read.
  bool may_slice() const { return is_remote_ || runs_ == Runs::kSteps; }
  // Whether an epoch is prepared after this one; the last epoch has the number UINT32_MAX.
  bool goes_on(uint64_t epoch) const { return goes_on_ && epoch < UINT32_MAX; }
  // An epoch from one of its steps on.
  StepRun epoch_from(uint64_t epoch, uint64_t step = 0) const {
    return {.epoch = epoch, .first = step, .end = steps_.count()};
  }
  // Plans a run, without the loads that only other steps need. Over a network it waits for the
  // locations of the samples of lists and of groups that are read as a whole; `read` limits that
  // wait. Errors: those of make_order() and of Dataset::load_locations().
  Result<std::shared_ptr<const EpochPlan>> plan(const StepRun& run,
                                                const io::ReadOptions& read) const EXCLUDES(mutex_);

 private:
  uint64_t bytes_of(const Order& order, const Group& group) const;
  uint64_t sliced_sample_bytes(const Order& order, const Group& group) const;
  Status load_locations(const Order& order, const io::ReadOptions& read) const;
  Result<std::shared_ptr<const Order>> order_of(uint64_t epoch, const io::ReadOptions& read) const
      EXCLUDES(mutex_);
  // The position after the run's last one.
  uint64_t end_of(const StepRun& run) const {
    return std::min(steps_.begin_of(run.end), steps_.end);
  }
  template <class Function>
  void each_group(const EpochPlan& plan, const Function& function) const;
  void add_loads(size_t number, EpochPlan* plan) const;
  uint64_t bytes_of(const Order& order) const;
  uint64_t drawn_bytes_needed() const;

  std::shared_ptr<const store::Dataset> dataset_;
  bool is_remote_ = false;
  OrderSource source_;
  Steps steps_;
  OrderOptions order_;
  bool goes_on_ = true;
  const Runs runs_;
  // For single steps the order of the last one's epoch is kept, because the next one probably
  // belongs to the same epoch.
  mutable base::Mutex mutex_;
  mutable uint64_t last_epoch_ GUARDED_BY(mutex_) = 0;
  mutable std::shared_ptr<const Order> last_order_ GUARDED_BY(mutex_);
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
