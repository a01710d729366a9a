#include "feed/read/cache_prefetch.h"

#include <algorithm>
#include <new>

#include "io/clock.h"
#include "io/machine.h"

namespace forebay::feed {

using base::MutexLock;

namespace {

constexpr uint64_t kAskedBytes = 1u << 20;  // of a group, in one request
// How long the thread waits after the answer kBusy before it asks again.
constexpr int64_t kWaitNs = 4'000'000;
constexpr int64_t kWaitMostNs = 256'000'000;
// After so many answers kKept in a row only one load in as many is asked for.
constexpr uint32_t kKeptInVain = 16;
// After so many chunks in a row for which there is no room, nothing more of the epoch is asked for.
// Chunks are counted rather than requests, because many requests are for one chunk, whose bytes may
// all belong to one member of a cache.
constexpr uint32_t kFullChunks = 16;

bool keeps_copies(const store::Dataset& dataset) {
  for (uint32_t chunk = 0; chunk < dataset.chunk_count(); ++chunk) {
    const store::ChunkOrigin of = dataset.origin(chunk);
    if (of.origin.keeps_copies(of.path)) return true;
  }
  return false;
}

}  // namespace

CachePrefetch::CachePrefetch(const store::Dataset& dataset, const Slicer& slicer,
                             store::Caching caching, base::Crew& crew)
    : dataset_(dataset), slicer_(slicer), caching_(caching), crew_(crew) {
  if (keeps_copies(dataset)) crew_.start(1, [this](uint32_t) { run(); });
}

CachePrefetch::~CachePrefetch() {
  stop();
  crew_.wait();
}

void CachePrefetch::stop() {
  stop_.request_stop();
  MutexLock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

void CachePrefetch::note(const std::shared_ptr<const EpochPlan>& plan, size_t next, bool may_ask) {
  MutexLock lock(mutex_);
  if (plan_ != plan) {
    plan_ = plan;
    next_ = 0;
    full_chunks_ = 0;
  }
  next_ = std::max(next_, next);
  may_ask_ = may_ask;
  if (may_ask_) changed_.notify_all();
}

// Waits until a load may be asked for, and returns its plan; null at the end.
std::shared_ptr<const EpochPlan> CachePrefetch::wait_for_turn(size_t* load) {
  MutexLock lock(mutex_);
  while (!stopped_) {
    const bool is_left = plan_ != nullptr && next_ < plan_->loads.size();
    if (!is_left || !may_ask_ || full_chunks_ >= kFullChunks) {
      changed_.wait(mutex_);
    } else if (io::monotonic_ns() < from_ns_) {
      io::monotonic_clock().wait_until(mutex_, changed_, from_ns_);
    } else {
      *load = next_;
      return plan_;
    }
  }
  return nullptr;
}

void CachePrefetch::run() {
  io::work_in_background();
  size_t load = 0;
  while (const auto plan = wait_for_turn(&load)) {
    if (of_ != plan || load_ != load) {
      if (of_ != plan) {
        groups_.clear();
        last_loads_.clear();
      }
      of_ = plan;
      load_ = load;
      auto wanted = wanted_of(*plan, load);
      // The reading stage will meet the same error and report it.
      wanted_ = wanted ? std::move(*wanted) : std::deque<Wanted>();
    }
    auto answer = wanted_.empty() ? io::PrefetchOutcome::kKept
                                  : ask(wanted_.front()).value_or(io::PrefetchOutcome::kFull);
    note_answer(*plan, answer);
  }
  groups_.clear();
  of_.reset();
}

void CachePrefetch::note_answer(const EpochPlan& plan, io::PrefetchOutcome answer) {
  MutexLock lock(mutex_);
  if (answer == io::PrefetchOutcome::kBusy) {
    wait_ns_ = std::clamp(2 * wait_ns_, kWaitNs, kWaitMostNs);
    from_ns_ = io::monotonic_ns() + wait_ns_;
    return;
  }
  wait_ns_ = 0;
  kept_in_a_row_ = answer == io::PrefetchOutcome::kKept ? kept_in_a_row_ + 1 : 0;
  if (answer != io::PrefetchOutcome::kFull) {
    full_chunks_ = 0;
  } else if (full_chunks_ == 0 || full_chunk_ != wanted_.front().chunk) {
    full_chunk_ = wanted_.front().chunk;
    ++full_chunks_;
  }
  if (!wanted_.empty()) wanted_.pop_front();
  if (!wanted_.empty() || plan_.get() != &plan || next_ != load_) return;
  next_ += kept_in_a_row_ > kKeptInVain ? kKeptInVain : 1;
}

Result<std::deque<CachePrefetch::Wanted>> CachePrefetch::wanted_of(const EpochPlan& plan,
                                                                   size_t load) {
  try {
    if (last_loads_.empty()) {
      last_loads_.resize(plan.order->groups().size());
      for (size_t i = 0; i < plan.loads.size(); ++i) last_loads_[plan.loads[i].group] = i;
    }
    std::erase_if(groups_, [&](const auto& one) { return last_loads_[one.first] < load; });
    const Load& of = plan.loads[load];
    if (of.is_slice) return wanted_of_slice(plan, of);
    return wanted_of_group(plan, of);
  } catch (const std::bad_alloc&) {
    return base::fail(base::Code::kNoMemory, "feed: no memory to prefetch into the cache");
  }
}

Result<std::deque<CachePrefetch::Wanted>> CachePrefetch::wanted_of_slice(const EpochPlan& plan,
                                                                         const Load& load) {
  auto& group = groups_[load.group];
  if (group == nullptr) group = slicer_.share(plan, load.group);
  ASSIGN_OR_RETURN(
      const Slice slice,
      slicer_.slice(plan, load, *group, {.deadline_ns = {}, .stop = stop_.get_token()}));
  std::deque<Wanted> wanted;
  for (const SliceRead& read : slice.reads) {
    Wanted& one = wanted.emplace_back(Wanted{slice.runs[read.first_run].chunk, {}});
    for (size_t i = 0; i < read.runs; ++i) {
      const FileRange& range = slice.runs[read.first_run + i].range;
      one.ranges.push_back({range.offset, range.length});
    }
  }
  return wanted;
}

std::deque<CachePrefetch::Wanted> CachePrefetch::wanted_of_group(const EpochPlan& plan,
                                                                 const Load& load) const {
  std::deque<Wanted> wanted;
  for (const Stretch& stretch : plan.order->stretches(plan.order->groups()[load.group])) {
    const FileRange range = range_of(dataset_, stretch);
    const uint64_t end = range.offset + range.length;
    for (uint64_t at = range.offset; at < end;) {
      const uint64_t next = std::min(end, (at / kAskedBytes + 1) * kAskedBytes);
      wanted.push_back({stretch.chunk, {{at, next - at}}});
      at = next;
    }
  }
  return wanted;
}

Result<io::PrefetchOutcome> CachePrefetch::ask(const Wanted& wanted) const {
  ASSIGN_OR_RETURN(const auto file, dataset_.open_chunk(wanted.chunk, caching_));
  const io::serve::WantedRange& last = wanted.ranges.back();
  RETURN_IF_ERROR(store::check_inside(*file, last.offset, last.length));
  const auto* const copies = dynamic_cast<const io::Prefetchable*>(file.get());
  if (copies == nullptr) return io::PrefetchOutcome::kKept;
  struct Answer {
    base::Mutex mutex;
    base::CondVar came;
    std::optional<io::PrefetchOutcome> answer GUARDED_BY(mutex);
  } own;
  copies->prefetch(wanted.ranges, {.deadline_ns = {}, .stop = stop_.get_token()},
                   [&own](io::PrefetchOutcome answer) {
                     MutexLock lock(own.mutex);
                     own.answer = answer;
                     own.came.notify_all();
                   });
  MutexLock lock(own.mutex);
  while (!own.answer) own.came.wait(own.mutex);
  return *own.answer;
}

}  // namespace forebay::feed
