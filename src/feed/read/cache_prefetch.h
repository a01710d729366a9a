// Prefetches into a job's cache (io::Prefetchable) what this rank needs in its epoch after the
// loads that the reading stage has started, in the order of need. Asks for nothing while the stage
// itself waits for bytes.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "base/crew.h"
#include "base/mutex.h"
#include "feed/read/plan.h"
#include "feed/read/slicer.h"
#include "io/serve/prefetch.h"

namespace forebay::feed {

// Any thread may call anything.
class CachePrefetch {
 public:
  // Starts a thread of the crew if a cache keeps copies of the dataset's bytes. The arguments must
  // outlive the object.
  CachePrefetch(const store::Dataset& dataset, const Slicer& slicer, store::Caching caching,
                base::Crew& crew);
  // Waits for the request in progress.
  ~CachePrefetch();
  CachePrefetch(const CachePrefetch&) = delete;
  CachePrefetch& operator=(const CachePrefetch&) = delete;

  // The stage has started the loads of this plan that come before `next`. `may_ask`: none of them
  // waits for bytes.
  void note(const std::shared_ptr<const EpochPlan>& plan, size_t next, bool may_ask)
      EXCLUDES(mutex_);
  void stop() EXCLUDES(mutex_);

 private:
  // What one request asks for.
  struct Wanted {
    uint32_t chunk = 0;
    std::vector<io::serve::WantedRange> ranges;
  };

  void run() EXCLUDES(mutex_);
  std::shared_ptr<const EpochPlan> wait_for_turn(size_t* load) EXCLUDES(mutex_);
  Result<std::deque<Wanted>> wanted_of(const EpochPlan& plan, size_t load);
  Result<std::deque<Wanted>> wanted_of_slice(const EpochPlan& plan, const Load& load);
  std::deque<Wanted> wanted_of_group(const EpochPlan& plan, const Load& load) const;
  Result<io::PrefetchOutcome> ask(const Wanted& wanted) const;
  void note_answer(const EpochPlan& plan, io::PrefetchOutcome answer) EXCLUDES(mutex_);

  const store::Dataset& dataset_;
  const Slicer& slicer_;
  const store::Caching caching_;
  base::Crew& crew_;
  std::stop_source stop_;

  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::shared_ptr<const EpochPlan> plan_ GUARDED_BY(mutex_);
  bool may_ask_ GUARDED_BY(mutex_) = false;
  size_t next_ GUARDED_BY(mutex_) = 0;      // the load that is asked for next
  int64_t from_ns_ GUARDED_BY(mutex_) = 0;  // no request is sent before
  int64_t wait_ns_ GUARDED_BY(mutex_) = 0;
  uint32_t kept_in_a_row_ GUARDED_BY(mutex_) = 0;  // answers of kKept
  uint32_t full_chunks_ GUARDED_BY(mutex_) = 0;    // chunks without room, in a row
  uint32_t full_chunk_ GUARDED_BY(mutex_) = 0;     // the last one of them

  // Used by the thread alone: the plan and load that are asked for at the moment, and what slices
  // share.
  std::shared_ptr<const EpochPlan> of_;
  size_t load_ = 0;
  std::deque<Wanted> wanted_;
  std::map<size_t, std::shared_ptr<SlicedGroup>> groups_;  // groups with loads that are left
  std::vector<size_t> last_loads_;                         // of each group
};

}  // namespace forebay::feed
