#include "feed/read/reading.h"

#include <algorithm>
#include <limits>
#include <new>

#include "io/machine.h"

namespace forebay::feed {

using base::Code;
using base::fail;
using base::MutexLock;

namespace {

constexpr size_t kRunsAhead = 2;  // the run that is prepared, and the next one
// Threads that plan slices: one for each lane that usually begins at the same time, because they
// wait for indexes.
constexpr uint32_t kSlicers = 8;

Status no_memory(uint64_t bytes) {
  return fail(Code::kNoMemory, "feed: no memory for {} of chunks", base::human_bytes(bytes));
}

}  // namespace

ReadingStage::ReadingStage(const store::Dataset& dataset, const Planner& planner,
                           StepSchedule& schedule, const Slicer& slicer,
                           std::shared_ptr<const EpochPlan> first, const Options& options,
                           ReadingCrews& crews, Trace& trace)
    : dataset_(dataset),
      planner_(planner),
      schedule_(schedule),
      slicer_(slicer),
      options_(options),
      is_remote_(planner.is_remote()),
      crews_(crews),
      trace_(trace),
      ahead_({.memory_bytes = options.memory_bytes_max,
              .reads = is_remote_ ? kRemoteReads : ReadAheadLimits{}.reads,
              .urgent_end = is_remote_ ? options.first_batch_end : 0}),
      to_slice_(std::numeric_limits<size_t>::max()),  // ReadAhead limits how many wait
      cache_prefetch_(dataset, slicer, options.caching, crews.fillers),
      queue_(crews.readers, {}, [this](const io::DoneRead& done) { finish_read(done); }) {
  {
    MutexLock lock(mutex_);
    add_run(std::make_shared<EpochData>(std::move(first)));
  }
  if (planner.may_slice()) crews_.slicers.reserve(kSlicers);
  crews_.planners.reserve(1);
  // From here on nothing may throw, because running threads must be told to end.
  if (planner.may_slice())
    crews_.slicers.start(kSlicers, [this](uint32_t thread) { work_on_slices(thread); });
  crews_.planners.start(1, [this](uint32_t) { plan_runs(); });
}

ReadingStage::~ReadingStage() {
  stop();
  crews_.planners.wait();
  crews_.slicers.wait();
}

void ReadingStage::stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    ready_.notify_all();
    may_plan_.notify_all();
  }
  schedule_.stop();
  to_slice_.close();
  cache_prefetch_.stop();
  stop_.request_stop();
  queue_.cancel();
}

Result<std::shared_ptr<EpochData>> ReadingStage::run() {
  MutexLock lock(mutex_);
  while (!stopped_ && runs_.empty() && plan_status_.ok()) ready_.wait(mutex_);
  if (stopped_) return fail(Code::kCancelled, "feed: stopped");
  if (runs_.empty()) return tl::unexpected(plan_status_);
  return runs_.front();
}

void ReadingStage::finish_run() {
  MutexLock lock(mutex_);
  runs_.pop_front();
  may_plan_.notify_one();
}

Status ReadingStage::wait(const LoadedGroup& group) {
  if (!group.loaded.load(std::memory_order_acquire)) {
    const int64_t begin = io::monotonic_ns();
    MutexLock lock(mutex_);
    while (!stopped_ && !group.loaded) ready_.wait(mutex_);
    starved_ns_ += io::monotonic_ns() - begin;
    if (!group.loaded) return fail(Code::kCancelled, "feed: stopped");
  }
  return group.status;
}

// Allocates nothing for the load itself, so that giving memory back never fails.
void ReadingStage::release(EpochData& epoch, size_t load) {
  LoadedGroup& group = epoch.loads[load];
  if (group.uses_left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  MutexLock lock(mutex_);
  drop(epoch, load);
  start_what_fits();
}

void ReadingStage::drop(EpochData& epoch, size_t load) {
  LoadedGroup& group = epoch.loads[load];
  group.permutation = std::vector<uint32_t>();
  group.slice.reset();
  group.shared.reset();
  ahead_.drop(epoch.plan->loads[load].lane, group.bytes);
  spare_.keep(std::move(group.memory), group.bytes);
  group.stretches = std::vector<StretchBytes>();
  shrink_spare();
}

// A load that is not in memory yet is dropped by publish().
void ReadingStage::leave_out(EpochData& epoch, std::span<const uint64_t> positions) {
  MutexLock lock(mutex_);
  for (const uint64_t position : positions) {
    const size_t load = epoch.plan->load_at(position);
    LoadedGroup& group = epoch.loads[load];
    if (group.uses_left.fetch_sub(1, std::memory_order_acq_rel) == 1 && group.loaded) {
      drop(epoch, load);
    }
  }
  start_what_fits();
}

void ReadingStage::add_to(FeedStats* stats) const {
  stats->bytes_read += bytes_read_;
  stats->whole_bytes += whole_bytes_;
  stats->requests += requests_;
  stats->ranges += ranges_;
  stats->read_ns += read_ns_;
  stats->reading_ns += reading_ns_;
  stats->starved_ns += starved_ns_;
}

// Frees spare memory until it fits the limit together with the loads.
void ReadingStage::shrink_spare() {
  const uint64_t used = std::min(ahead_.memory_bytes(), options_.memory_bytes_max);
  spare_.shrink_to(options_.memory_bytes_max - used);
}

void ReadingStage::start_what_fits() {
  while (!stopped_) {
    if (const auto read = ahead_.next_read()) {
      start_read(*read);
    } else if (const auto load = ahead_.next_load()) {
      begin_load(*load);
    } else {
      break;
    }
  }
  if (may_plan()) may_plan_.notify_one();
  note_ahead();
}

// Later loads of the epoch in use may be prefetched into the cache.
void ReadingStage::note_ahead() {
  if (runs_.size() == 1) cache_prefetch_.note(newest_->plan, ahead_.next(), loading_.empty());
}

void ReadingStage::begin_load(const LoadId& id) {
  const std::shared_ptr<EpochData> epoch = newest_;
  const Load& load = epoch->plan->loads[id.number];
  LoadedGroup& group = epoch->loads[id.number];
  group.bytes = load.bytes;
  try {
    loading_.emplace(id, epoch);
    if (group.uses_left == 0) {
      ahead_.begin(id, {});
      return publish(*epoch, id);
    }
    if (load.is_slice) {
      std::weak_ptr<SlicedGroup>& shared = epoch->sliced_groups[load.group];
      group.shared = shared.lock();
      if (group.shared == nullptr) {
        group.shared = slicer_.share(*epoch->plan, load.group);
        shared = group.shared;
      }
      to_slice_.push(id);
      return;
    }
    make_room(dataset_, options_.caching, spare_, *epoch, id.number);
    shrink_spare();  // only now, so that the load takes spare memory, not new memory
    std::deque<PieceRead> reads = reads_of(*epoch, id);
    if (reads.empty()) group.permutation = permutation_of(*epoch, id.number);
    if (ahead_.begin(id, std::move(reads))) return;
  } catch (const std::bad_alloc&) {
    group.status = no_memory(load.bytes);
    ahead_.begin(id, {});
  }
  publish(*epoch, id);
}

void ReadingStage::work_on_slices(uint32_t thread) {
  io::work_in_background();
  while (const auto id = to_slice_.pop()) {
    const int64_t cpu_begin = io::thread_cpu_ns();
    std::shared_ptr<EpochData> epoch;
    {
      MutexLock lock(mutex_);
      if (stopped_) return;
      epoch = loading_.at(*id);
    }
    if (epoch->plan->loads[id->number].is_slice) {
      slice(*epoch, *id, thread);
    } else {
      complete(*epoch, *id);
    }
    read_ns_ += io::thread_cpu_ns() - cpu_begin;
  }
}

// Plans without the lock: nobody else touches a load whose reads are not named.
void ReadingStage::slice(EpochData& epoch, const LoadId& id, uint32_t thread) {
  LoadedGroup& group = epoch.loads[id.number];
  const Load& load = epoch.plan->loads[id.number];
  try {
    const Trace::Span span(trace_, "plan a slice", {.name = "slice", .number = thread}, "group",
                           load.group);
    auto planned = slicer_.slice(*epoch.plan, load, *group.shared, read_options());
    if (planned) {
      group.slice = std::make_unique<const Slice>(std::move(*planned));
    } else {
      group.status = planned.error().at("feed");
    }
  } catch (const std::bad_alloc&) {
    group.status = no_memory(load.bytes);
  }
  MutexLock lock(mutex_);
  begin_slice(epoch, id);
  start_what_fits();
}

void ReadingStage::begin_slice(EpochData& epoch, const LoadId& id) {
  LoadedGroup& group = epoch.loads[id.number];
  try {
    if (group.slice != nullptr) {
      make_room(dataset_, options_.caching, spare_, epoch, id.number);
      uint64_t bytes = group.slice->own_bytes;
      for (const SliceRead& read : group.slice->reads) bytes += read.bytes;
      const bool any = ahead_.begin(id, reads_of(epoch, id), group.bytes, bytes);
      group.bytes = bytes;
      shrink_spare();
      if (!any) publish(epoch, id);
      return;
    }
  } catch (const std::bad_alloc&) {
    group.status = no_memory(group.bytes);
  }
  ahead_.begin(id, {});
  publish(epoch, id);
}

void ReadingStage::start_read(const PieceRead& read) {
  EpochData& epoch = *loading_.at(read.load);
  const LoadedGroup& group = epoch.loads[read.load.number];
  const uint64_t tag = next_tag_++;
  try {
    in_flight_.emplace(tag, read);
    const uint32_t chunk = chunk_of(epoch, read);
    queue_.start({.open = [this, chunk,
                           extent = extent_of(group, read)] { return open_chunk(chunk, extent); },
                  .ranges = ranges_of(group, read),
                  .tag = tag});
    ++requests_;
    ranges_ += read.stretches;
  } catch (const std::bad_alloc&) {
    in_flight_.erase(tag);
    note(epoch, read, no_memory(read.bytes));
    if (ahead_.finish(read)) publish(epoch, read.load);
  }
}

// Errors: kCorrupt when the file is not what was listed, or too short for the range.
Result<std::shared_ptr<const io::ReadableFile>> ReadingStage::open_chunk(
    uint32_t chunk, const FileRange& range) const {
  ASSIGN_OR_RETURN(auto file, dataset_.open_chunk(chunk, options_.caching));
  RETURN_IF_ERROR(store::check_inside(*file, range.offset, range.length));
  return std::shared_ptr<const io::ReadableFile>(std::move(file));
}

void ReadingStage::finish_read(const io::DoneRead& done) {
  if (trace_.on()) {
    trace_.add("read", {.name = "read", .number = done.thread}, done.begin_ns, done.end_ns, "bytes",
               done.bytes);
  }
  bytes_read_ += done.bytes;
  read_ns_ += done.cpu_ns;
  reading_ns_ += done.end_ns - done.begin_ns;
  std::shared_ptr<EpochData> epoch;  // set if this was a load's last read
  PieceRead read;
  {
    MutexLock lock(mutex_);
    read = in_flight_.extract(done.tag).mapped();
    const std::shared_ptr<EpochData>& of = loading_.at(read.load);
    note(*of, read, done.status);
    if (!of->plan->loads[read.load.number].is_slice) whole_bytes_ += done.bytes;
    if (ahead_.finish(read)) epoch = of;
    start_what_fits();
  }
  if (epoch == nullptr) return;
  if (is_remote_ && !epoch->plan->loads[read.load.number].is_slice) {
    to_slice_.push(read.load);
  } else {
    complete(*epoch, read.load);
  }
}

// A chunk's file that is too short still holds good samples, and a file in place that changed is
// reported at each of its samples: in both cases the samples are read one by one. Every other
// failure concerns more than single samples, also a read that ends although the file should go on.
void ReadingStage::note(EpochData& epoch, const PieceRead& read, const Status& status) {
  LoadedGroup& group = epoch.loads[read.load.number];
  if (status.code() == Code::kCorrupt) {
    for (size_t i = 0; i < read.stretches; ++i) group.stretches[read.stretch + i].is_lost = true;
  } else if (!status.ok() && group.status.ok()) {
    group.status = status.at("feed");
  }
}

// Shuffles without the lock: nobody else touches a load of which nothing is left to read.
void ReadingStage::complete(EpochData& epoch, const LoadId& id) {
  LoadedGroup& group = epoch.loads[id.number];
  try {
    if (group.slice != nullptr) {
      whole_bytes_ += group.slice->sample_bytes;
    } else {
      group.permutation = permutation_of(epoch, id.number);
    }
  } catch (const std::bad_alloc&) {
    group.status = no_memory(group.bytes);
  }
  MutexLock lock(mutex_);
  publish(epoch, id);
  start_what_fits();  // if nobody uses the load any more, its memory is free
}

void ReadingStage::publish(EpochData& epoch, const LoadId& id) {
  LoadedGroup& group = epoch.loads[id.number];
  const bool is_left_out = group.uses_left == 0;  // asked before anybody can use it
  group.loaded.store(true, std::memory_order_release);
  if (is_left_out) drop(epoch, id.number);
  loading_.erase(id);
  note_ahead();
  ready_.notify_all();
}

bool ReadingStage::may_plan() const {
  return ahead_.wants_plan() && schedule_.goes_on(newest_->plan->run) &&
         runs_.size() < kRunsAhead && plan_status_.ok();
}

void ReadingStage::plan_runs() {
  io::work_in_background();
  MutexLock lock(mutex_);
  while (!stopped_) {
    if (!may_plan()) {
      may_plan_.wait(mutex_);
      continue;
    }
    const StepRun before = newest_->plan->run;
    mutex_.unlock();
    const auto next = schedule_.next(before);
    auto run = next ? plan_run(*next) : fail(Code::kCancelled, "feed: stopped");
    mutex_.lock();
    if (run) {
      add_run(std::move(*run));
    } else {
      plan_status_ = run.error();
    }
    ready_.notify_all();
  }
}

Result<std::shared_ptr<EpochData>> ReadingStage::plan_run(const StepRun& run) {
  const Trace::Span span(trace_, "plan", {.name = "plan"}, "epoch", run.epoch);
  const int64_t begin = io::monotonic_ns();
  const int64_t cpu_begin = io::thread_cpu_ns();
  auto planned = make_run(run);
  read_ns_ += io::thread_cpu_ns() - cpu_begin;
  reading_ns_ += io::monotonic_ns() - begin;
  return planned;
}

void ReadingStage::add_run(std::shared_ptr<EpochData> run) {
  ahead_.add(run->plan);
  newest_ = run;
  runs_.push_back(std::move(run));
  start_what_fits();
}

Result<std::shared_ptr<EpochData>> ReadingStage::make_run(const StepRun& run) const {
  try {
    ASSIGN_OR_RETURN(auto plan, planner_.plan(run, read_options()));
    RETURN_IF_ERROR(check_memory(*plan));
    return std::make_shared<EpochData>(std::move(plan));
  } catch (const std::bad_alloc&) {
    return fail(Code::kNoMemory, "feed: no memory for the order of epoch {}", run.epoch);
  }
}

Status ReadingStage::check_memory(const EpochPlan& plan) const {
  // Slices work with any memory limit (ReadAhead).
  if (plan.has_slices || plan.bytes_needed <= options_.memory_bytes_max) return {};
  return fail(
      Code::kNoMemory,
      "feed: epoch {} needs {} of chunks in memory at once, but only {} of memory_bytes_max are "
      "left; raise it, or lower what is shuffled together (lanes, their groups, the chunks)",
      plan.epoch, base::human_bytes(plan.bytes_needed),
      base::human_bytes(options_.memory_bytes_max));
}

}  // namespace forebay::feed
