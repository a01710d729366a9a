// The reading stage. It brings groups, or slices of groups, into memory in the order of first need,
// a little ahead of it, keeps several reads in flight, and drops each group or slice after its last
// use. It also has the next run of steps planned in time. feed/read/read_ahead.h decides which load
// starts when.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/crew.h"
#include "base/mutex.h"
#include "base/queue.h"
#include "feed/batch/stats.h"
#include "feed/batch/trace.h"
#include "feed/read/cache_prefetch.h"
#include "feed/read/loaded.h"
#include "feed/read/read_ahead.h"
#include "feed/read/spare_buffers.h"
#include "io/read_queue.h"

namespace forebay::feed {

// Threads that work for one stage after another.
struct ReadingCrews {
  base::Crew readers;
  base::Crew planners;
  base::Crew slicers;
  base::Crew fillers;
};

// Any thread may call anything. The constructor's arguments must outlive the stage.
class ReadingStage {
 public:
  struct Options {
    uint64_t memory_bytes_max = 0;  // room for loads; the plan `first` fits
    store::Caching caching = store::Caching::kCached;
    uint64_t first_batch_end = 0;  // the position after those of the first batch
  };

  // Begins to read what the plan `first` needs; `schedule` says which runs come after it.
  ReadingStage(const store::Dataset& dataset, const Planner& planner, StepSchedule& schedule,
               const Slicer& slicer, std::shared_ptr<const EpochPlan> first, const Options& options,
               ReadingCrews& crews, Trace& trace);
  // Waits for the pieces that are being read at the moment, each of a few milliseconds.
  ~ReadingStage();
  ReadingStage(const ReadingStage&) = delete;
  ReadingStage& operator=(const ReadingStage&) = delete;

  // The oldest run that was not finished; waits until it is planned. Errors: kCancelled after
  // stop(); the errors of planning.
  Result<std::shared_ptr<EpochData>> run() EXCLUDES(mutex_);
  // All positions of the oldest run are handed out: another one may be planned.
  void finish_run() EXCLUDES(mutex_);

  // Waits until the load is in memory. Errors: kCancelled after stop(); read errors.
  Status wait(const LoadedGroup& group) EXCLUDES(mutex_);
  // Ends one use of a load. The last one frees its memory.
  void release(EpochData& epoch, size_t load) EXCLUDES(mutex_);
  // None of these positions will be used. Loads without any use left are not read any more.
  void leave_out(EpochData& epoch, std::span<const uint64_t> positions) EXCLUDES(mutex_);

  // Ends every wait, and gives up reads in flight.
  void stop() EXCLUDES(mutex_);
  // For reads beside the stage's own: stop() ends them too.
  io::ReadOptions read_options() const { return {.deadline_ns = {}, .stop = stop_.get_token()}; }

  // Adds what was read so far, and the time in which others waited for it.
  void add_to(FeedStats* stats) const;

 private:
  void start_what_fits() REQUIRES(mutex_);
  void drop(EpochData& epoch, size_t load) REQUIRES(mutex_);
  void note_ahead() REQUIRES(mutex_);
  void begin_load(const LoadId& id) REQUIRES(mutex_);
  void work_on_slices(uint32_t thread) EXCLUDES(mutex_);
  void slice(EpochData& epoch, const LoadId& id, uint32_t thread) EXCLUDES(mutex_);
  void begin_slice(EpochData& epoch, const LoadId& id) REQUIRES(mutex_);
  void start_read(const PieceRead& read) REQUIRES(mutex_);
  Result<std::shared_ptr<const io::ReadableFile>> open_chunk(uint32_t chunk,
                                                             const FileRange& range) const;
  void finish_read(const io::DoneRead& done) EXCLUDES(mutex_);
  void note(EpochData& epoch, const PieceRead& read, const Status& status) REQUIRES(mutex_);
  void complete(EpochData& epoch, const LoadId& id) EXCLUDES(mutex_);
  void publish(EpochData& epoch, const LoadId& id) REQUIRES(mutex_);
  void shrink_spare() REQUIRES(mutex_);

  bool may_plan() const REQUIRES(mutex_);
  void plan_runs() EXCLUDES(mutex_);
  void add_run(std::shared_ptr<EpochData> run) REQUIRES(mutex_);
  Result<std::shared_ptr<EpochData>> plan_run(const StepRun& run) EXCLUDES(mutex_);
  Result<std::shared_ptr<EpochData>> make_run(const StepRun& run) const;
  Status check_memory(const EpochPlan& plan) const;

  const store::Dataset& dataset_;
  const Planner& planner_;
  StepSchedule& schedule_;
  const Slicer& slicer_;
  const Options options_;
  const bool is_remote_;  // whether any chunk comes over a network
  ReadingCrews& crews_;
  Trace& trace_;

  base::Mutex mutex_;
  base::CondVar ready_;     // threads wait for groups and runs
  base::CondVar may_plan_;  // the planning thread waits
  std::atomic<bool> stopped_ = false;
  std::deque<std::shared_ptr<EpochData>> runs_ GUARDED_BY(mutex_);  // the unfinished ones
  Status plan_status_ GUARDED_BY(mutex_);                           // why there is no further run
  std::shared_ptr<EpochData> newest_ GUARDED_BY(mutex_);            // the run that was planned last
  // The runs of loads that have started and are not in memory yet.
  std::map<LoadId, std::shared_ptr<EpochData>> loading_ GUARDED_BY(mutex_);
  ReadAhead ahead_ GUARDED_BY(mutex_);
  SpareBuffers spare_ GUARDED_BY(mutex_);
  std::map<uint64_t, PieceRead> in_flight_ GUARDED_BY(mutex_);  // key: tag
  uint64_t next_tag_ GUARDED_BY(mutex_) = 0;

  // Loads for the slicing threads: slices to plan, and groups to shuffle that came over a network,
  // because the network's threads must not be kept busy.
  base::Queue<LoadId> to_slice_;
  std::stop_source stop_;

  std::atomic<uint64_t> bytes_read_ = 0;
  std::atomic<uint64_t> whole_bytes_ = 0;
  std::atomic<uint64_t> requests_ = 0;
  std::atomic<uint64_t> ranges_ = 0;
  std::atomic<int64_t> read_ns_ = 0;
  std::atomic<int64_t> reading_ns_ = 0;
  std::atomic<int64_t> starved_ns_ = 0;

  CachePrefetch cache_prefetch_;

  io::ReadQueue queue_;  // ends first, because its threads use all of the above
};

}  // namespace forebay::feed
