// Decides which load is read next, and when: plain logic without threads, files, clocks or memory
// of its own, so that a simulator can drive it. feed/read/reading.h connects it to the world.
#pragma once

#include <compare>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "feed/read/plan.h"

namespace forebay::feed {

// A load of a plan.
struct LoadId {
  uint64_t plan = 0;  // how many plans were added before
  size_t number = 0;  // index in EpochPlan::loads
  auto operator<=>(const LoadId&) const = default;
};

// A read of one piece of a load: of one stretch, or of several whole ones of the same chunk.
struct PieceRead {
  LoadId load;
  size_t stretch = 0;  // the first one's index in LoadedGroup::stretches
  size_t stretches = 1;
  uint64_t offset = 0;  // in the chunk's file
  uint64_t bytes = 0;   // of all stretches together
};

struct ReadAheadLimits {
  uint64_t memory_bytes = 0;         // for all loads that were started and not dropped
  uint32_t reads = 16;               // reads in flight
  uint32_t unnamed = 32;             // loads that have started and whose reads are not named yet
  uint64_t read_bytes = 64'000'000;  // bytes in flight; a larger read may be in flight alone
  // The loads of the first plan that positions below this need are urgent. Nothing else starts
  // until their reads are named, and then until all of them are in memory only while fewer than
  // `beside_urgent` reads are in flight: all reads share a link, and the first batch would
  // otherwise wait for everything that is read ahead.
  uint64_t urgent_end = 0;
  uint32_t beside_urgent = 8;
};

// One thread at a time may use it. The order of calls: add() makes loads known; next_load()
// starts one, for which begin() names the reads, perhaps later, when others have started;
// next_read() starts a read, and finish() says that it is over; drop() gives back a load's memory.
// Loads start in the order of the plans, each when all reads that are named have started and its
// memory is free.
//
// The bytes of slices are estimates until begin(), which is told the true ones. Loads that take
// more than their estimates could then keep out the very load that all users wait for. Therefore a
// load of a plan with slices may start beyond the limit while no other load of its lane is in
// memory. This rule suffices, because users drop the loads of a lane in order, so that the lane of
// the load that they all wait for becomes empty. Everything else respects the limit.
class ReadAhead {
 public:
  explicit ReadAhead(const ReadAheadLimits& limits) : limits_(limits) {}

  // The plan to read after those added before, all of whose loads have started. Each of its loads
  // must fit the memory beside what is needed at the same time (EpochPlan::bytes_needed).
  void add(std::shared_ptr<const EpochPlan> plan);
  // Whether all loads of all plans have started, so that the next plan may be added.
  bool wants_plan() const { return plan_ == nullptr || next_ == plan_->loads.size(); }

  // The number of the load of the last plan that starts next.
  size_t next() const { return next_; }
  // Starts the next load if it may start now; begin() must follow.
  std::optional<LoadId> next_load();
  // Queues the reads of a load that was started, before those of later loads. False if there are
  // none, so that nothing has to be waited for.
  bool begin(const LoadId& load, std::deque<PieceRead> reads);
  // The same for a slice, whose memory was estimated at `estimated` bytes and is `bytes`.
  bool begin(const LoadId& load, std::deque<PieceRead> reads, uint64_t estimated, uint64_t bytes);
  // Starts the next read if it may start now; finish() must follow.
  std::optional<PieceRead> next_read();
  // Ends a read; true if it was the load's last one.
  bool finish(const PieceRead& read);
  // Gives back the memory of a load of this lane that nobody uses any more.
  void drop(uint32_t lane, uint64_t load_bytes);

  // Bytes of all loads that were started and not dropped.
  uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  bool is_urgent(const LoadId& load) const;
  void note_loaded(const LoadId& load);
  bool has_room_for_read(const LoadId& load, uint64_t bytes) const;
  bool may_exceed_memory(const Load& load) const;

  const ReadAheadLimits limits_;
  std::shared_ptr<const EpochPlan> plan_;
  size_t next_ = 0;                // the load of plan_ that starts next
  uint64_t plans_ = 0;             // that were added
  size_t urgent_ = 0;              // the first loads of the first plan
  size_t urgent_left_ = 0;         // urgent loads that are not in memory yet
  size_t urgent_unnamed_ = 0;      // urgent loads that have started and whose reads are not named
  std::deque<PieceRead> waiting_;  // reads that are named, in the order of their loads
  uint32_t unnamed_ = 0;           // loads whose reads are not
  std::vector<uint32_t> in_lane_;  // loads in memory, of each lane
  std::map<LoadId, size_t> reads_of_;  // reads that are not over, of each load
  uint64_t memory_bytes_ = 0;
  uint32_t reads_ = 0;  // in flight
  uint64_t read_bytes_ = 0;
};

}  // namespace forebay::feed
