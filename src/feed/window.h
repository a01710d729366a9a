// The groups that are in memory: read whole, in the order of first need, a little ahead of it,
// and dropped after their last use. Also makes the plan of the next epoch in time.
#pragma once

#include <deque>
#include <thread>

#include "base/mutex.h"
#include "feed/plan.h"

namespace forebay::feed {

// Any thread may call anything. The file system, dataset and planner outlive it.
class Window {
 public:
  // Holds at most `bytes_max` of chunks; `first` is planned already and fits. `uncached`: read
  // around the page cache.
  Window(const io::FileSystem& fs, const store::Dataset& dataset, const Planner& planner,
         std::shared_ptr<EpochPlan> first, uint64_t bytes_max, bool uncached, Trace& trace);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // The oldest plan that was not finished; waits until it is made. kCancelled after stop().
  Result<std::shared_ptr<EpochPlan>> epoch() EXCLUDES(mutex_);
  // All work of the oldest plan is handed out: another one may be made.
  void finish_epoch() EXCLUDES(mutex_);

  // Waits until the group is in memory. kCancelled after stop(); else what reading gave.
  Status wait(const Load& load) EXCLUDES(mutex_);
  // One use is over. After the last one the group's memory is gone.
  void release(Load& load) EXCLUDES(mutex_);

  // Every wait ends now.
  void stop() EXCLUDES(mutex_);

  // Adds what was read so far, and the time in which others waited for it.
  void add_to(FeedStats* stats) const;

 private:
  // What a reading thread does next: a load, or a plan when `load` is empty.
  struct Work {
    std::shared_ptr<EpochPlan> plan;
    Load* load = nullptr;
    uint64_t epoch = 0;
  };

  void run(uint32_t thread) EXCLUDES(mutex_);
  std::optional<Work> take() EXCLUDES(mutex_);
  std::optional<Work> next_work() REQUIRES(mutex_);
  void make_plan(uint64_t epoch) EXCLUDES(mutex_);
  Status read_group(const EpochPlan& plan, Load& load);
  void read(const EpochPlan& plan, Load& load) EXCLUDES(mutex_);
  Status read_part(const Part& part, PartBytes* bytes) EXCLUDES(mutex_);
  Result<std::unique_ptr<io::RandomFile>> open_chunk(uint32_t chunk) const;
  io::LargeBuffer take_buffer(uint64_t bytes) EXCLUDES(mutex_);
  void keep_buffers(Load& load) REQUIRES(mutex_);
  void drop_buffers() REQUIRES(mutex_);

  const io::FileSystem& fs_;
  const store::Dataset& dataset_;
  const Planner& planner_;
  const uint64_t bytes_max_;
  const bool uncached_;
  Trace& trace_;

  base::Mutex mutex_;
  base::CondVar work_;   // for the reading threads
  base::CondVar ready_;  // for those that wait for them
  std::atomic<bool> stopped_ = false;
  std::deque<std::shared_ptr<EpochPlan>> plans_ GUARDED_BY(mutex_);
  Status plan_status_ GUARDED_BY(mutex_);
  bool planning_ GUARDED_BY(mutex_) = false;
  std::shared_ptr<EpochPlan> reading_ GUARDED_BY(mutex_);  // the plan whose loads are taken
  size_t next_load_ GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  // Memory of groups that are gone, for those to come: new memory costs a page fault a page.
  std::vector<io::LargeBuffer> spare_ GUARDED_BY(mutex_);
  uint64_t spare_bytes_ GUARDED_BY(mutex_) = 0;

  std::atomic<uint64_t> bytes_read_ = 0;
  std::atomic<int64_t> read_ns_ = 0;
  std::atomic<int64_t> reading_ns_ = 0;
  std::atomic<int64_t> starved_ns_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace forebay::feed
