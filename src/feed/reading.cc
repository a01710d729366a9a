#include "feed/reading.h"

#include <algorithm>
#include <new>

#include "io/machine.h"

namespace forebay::feed {

using base::Code;
using base::fail;
using base::MutexLock;

namespace {

constexpr size_t kEpochsAhead = 2;  // the epoch that is prepared, and the next one
// No read is larger, so that several threads can read the first chunk and a stop waits for little.
// Reads end at multiples of it in the file: whole blocks, for reads around the page cache.
constexpr uint64_t kPieceBytes = 8u << 20;
constexpr uint64_t kCacheLine = 64;  // bytes

Status no_memory(uint64_t bytes) {
  return fail(Code::kNoMemory, "feed: no memory for {} of chunks", base::human_bytes(bytes));
}

// The image data begins at the same place in a block as in the file (io::Origin::open_uncached).
uint64_t place_in_block(const FileRange& range) { return range.offset % io::kDirectAlignment; }

const Group& group_of(const EpochData& epoch, size_t load) {
  return epoch.plan->order.groups()[epoch.plan->loads[load].group];
}

std::span<const Stretch> stretches_of(const EpochData& epoch, size_t load) {
  return epoch.plan->order.stretches(group_of(epoch, load));
}

std::vector<uint32_t> permutation_of(const EpochData& epoch, size_t load) {
  return epoch.plan->order.permutation(group_of(epoch, load));
}

// The pieces in which stretches are read.
std::deque<PieceRead> reads_of(const LoadId& id, const std::vector<StretchBytes>& stretches) {
  std::deque<PieceRead> reads;
  for (size_t number = 0; number < stretches.size(); ++number) {
    const FileRange& range = stretches[number].range;
    const uint64_t end = range.offset + range.length;
    for (uint64_t at = range.offset; at < end;) {
      const uint64_t next = std::min(end, (at / kPieceBytes + 1) * kPieceBytes);
      reads.push_back({.load = id, .stretch = number, .offset = at, .bytes = next - at});
      at = next;
    }
  }
  return reads;
}

}  // namespace

EpochData::EpochData(std::shared_ptr<const EpochPlan> epoch_plan)
    : plan(std::move(epoch_plan)), loads(plan->loads.size()) {
  for (size_t i = 0; i < loads.size(); ++i) loads[i].uses_left = plan->loads[i].uses;
}

ReadingStage::ReadingStage(const store::Dataset& dataset, const Planner& planner,
                           std::shared_ptr<const EpochPlan> first, const Options& options,
                           ReadingCrews& crews, Trace& trace)
    : dataset_(dataset),
      planner_(planner),
      options_(options),
      crews_(crews),
      trace_(trace),
      ahead_({.memory_bytes = options.memory_bytes_max}),
      queue_(crews.readers, {}, [this](const io::DoneRead& done) { finish_read(done); }) {
  {
    MutexLock lock(mutex_);
    add_epoch(std::make_shared<EpochData>(std::move(first)));
  }
  crews_.planners.start(1, [this](uint32_t) { plan_epochs(); });
}

ReadingStage::~ReadingStage() {
  stop();
  crews_.planners.wait();
}

void ReadingStage::stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    ready_.notify_all();
    may_plan_.notify_all();
  }
  queue_.cancel();
}

Result<std::shared_ptr<EpochData>> ReadingStage::epoch() {
  MutexLock lock(mutex_);
  while (!stopped_ && epochs_.empty() && plan_status_.ok()) ready_.wait(mutex_);
  if (stopped_) return fail(Code::kCancelled, "feed: stopped");
  if (epochs_.empty()) return tl::unexpected(plan_status_);
  return epochs_.front();
}

void ReadingStage::finish_epoch() {
  MutexLock lock(mutex_);
  epochs_.pop_front();
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
  group.permutation = std::vector<uint32_t>();
  MutexLock lock(mutex_);
  const uint64_t bytes = epoch.plan->loads[load].bytes;
  ahead_.drop(bytes);
  spare_.keep(std::move(group.memory), bytes);
  group.stretches = std::vector<StretchBytes>();
  shrink_spare();
  start_what_fits();
}

void ReadingStage::add_to(FeedStats* stats) const {
  stats->bytes_read += bytes_read_;
  stats->read_ns += read_ns_;
  stats->reading_ns += reading_ns_;
  stats->starved_ns += starved_ns_;
}

// Frees spare memory until it fits the limit together with the loads.
void ReadingStage::shrink_spare() {
  spare_.shrink_to(options_.memory_bytes_max - ahead_.memory_bytes());
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
}

void ReadingStage::begin_load(const LoadId& id) {
  beginning_ = newest_;
  LoadedGroup& group = beginning_->loads[id.number];
  try {
    make_room(id, &group);
    shrink_spare();  // only now, so that spare memory becomes the load's and not new memory
    if (ahead_.begin(id, reads_of(id, group.stretches))) return;
    group.permutation = permutation_of(*beginning_, id.number);
  } catch (const std::bad_alloc&) {
    group.status = no_memory(beginning_->plan->loads[id.number].bytes);
  }
  publish(group);
}

// Lists the stretches of a load's group, and gives them memory: one buffer for all, as they come
// and go together.
void ReadingStage::make_room(const LoadId& id, LoadedGroup* group) {
  const bool is_direct = options_.caching == store::Caching::kUncached;
  const uint64_t alignment = is_direct ? io::kDirectAlignment : kCacheLine;
  std::vector<uint64_t> places;
  uint64_t end = 0;
  for (const Stretch& stretch : stretches_of(*beginning_, id.number)) {
    const FileRange range = range_of(dataset_, stretch);
    group->stretches.push_back({.range = range, .data = nullptr});
    const uint64_t place = base::round_up(end, alignment) + (is_direct ? place_in_block(range) : 0);
    places.push_back(place);
    end = place + range.length;
  }
  group->memory = spare_.take(end);
  for (size_t i = 0; i < places.size(); ++i) {
    StretchBytes& bytes = group->stretches[i];
    if (bytes.range.length > 0) bytes.data = group->memory.data() + places[i];
  }
}

void ReadingStage::start_read(const PieceRead& read) {
  const std::shared_ptr<EpochData> epoch = beginning_;
  LoadedGroup& group = epoch->loads[read.load.number];
  StretchBytes& bytes = group.stretches[read.stretch];
  const uint32_t chunk = stretches_of(*epoch, read.load.number)[read.stretch].chunk;
  const uint64_t tag = next_tag_++;
  try {
    in_flight_.emplace(tag, InFlight{epoch, read});
    queue_.start({.open = [this, chunk, range = bytes.range] { return open_chunk(chunk, range); },
                  .offset = read.offset,
                  .out = {bytes.data + (read.offset - bytes.range.offset), read.bytes},
                  .tag = tag});
  } catch (const std::bad_alloc&) {
    in_flight_.erase(tag);
    note(*epoch, read, no_memory(bytes.range.length));
    if (ahead_.finish(read)) publish(group);
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
  std::shared_ptr<EpochData> epoch;  // where this was a load's last read
  size_t load = 0;
  {
    MutexLock lock(mutex_);
    const InFlight was = std::move(in_flight_.extract(done.tag).mapped());
    note(*was.epoch, was.read, done.status);
    if (ahead_.finish(was.read)) epoch = was.epoch;
    load = was.read.load.number;
    start_what_fits();
  }
  if (epoch != nullptr) complete(*epoch, load);
}

// A chunk's file that is too short still holds good samples, and a file in place that changed is
// reported at each of its samples: in both cases the samples are read one by one. Every other
// failure concerns more than single samples, also a read that ends although the file should go on.
void ReadingStage::note(EpochData& epoch, const PieceRead& read, const Status& status) {
  LoadedGroup& group = epoch.loads[read.load.number];
  if (status.code() == Code::kCorrupt) {
    group.stretches[read.stretch].data = nullptr;
  } else if (!status.ok() && group.status.ok()) {
    group.status = status.at("feed");
  }
}

// Shuffles without the lock: nobody else touches a group of which nothing is left to read.
void ReadingStage::complete(EpochData& epoch, size_t load) {
  LoadedGroup& group = epoch.loads[load];
  try {
    group.permutation = permutation_of(epoch, load);
  } catch (const std::bad_alloc&) {
    group.status = no_memory(epoch.plan->loads[load].bytes);
  }
  MutexLock lock(mutex_);
  publish(group);
}

void ReadingStage::publish(LoadedGroup& group) {
  group.loaded.store(true, std::memory_order_release);
  ready_.notify_all();
}

bool ReadingStage::may_plan() const {
  return ahead_.wants_epoch() && planner_.goes_on(newest_->plan->epoch) &&
         epochs_.size() < kEpochsAhead && plan_status_.ok();
}

void ReadingStage::plan_epochs() {
  io::work_in_background();
  MutexLock lock(mutex_);
  while (!stopped_) {
    if (!may_plan()) {
      may_plan_.wait(mutex_);
      continue;
    }
    const uint64_t number = newest_->plan->epoch + 1;
    mutex_.unlock();
    auto epoch = plan_epoch(number);
    mutex_.lock();
    if (epoch) {
      add_epoch(std::move(*epoch));
    } else {
      plan_status_ = epoch.error();
    }
    ready_.notify_all();
  }
}

Result<std::shared_ptr<EpochData>> ReadingStage::plan_epoch(uint64_t number) {
  const Trace::Span span(trace_, "plan", {.name = "plan"}, "epoch", number);
  const int64_t begin = io::monotonic_ns();
  const int64_t cpu_begin = io::thread_cpu_ns();
  auto epoch = make_epoch(number);
  read_ns_ += io::thread_cpu_ns() - cpu_begin;
  reading_ns_ += io::monotonic_ns() - begin;
  return epoch;
}

void ReadingStage::add_epoch(std::shared_ptr<EpochData> epoch) {
  ahead_.add_epoch(epoch->plan);
  newest_ = epoch;
  epochs_.push_back(std::move(epoch));
  start_what_fits();
}

Result<std::shared_ptr<EpochData>> ReadingStage::make_epoch(uint64_t number) const {
  try {
    ASSIGN_OR_RETURN(auto plan, planner_.plan(number, 0));
    RETURN_IF_ERROR(check_memory(*plan));
    return std::make_shared<EpochData>(std::move(plan));
  } catch (const std::bad_alloc&) {
    return fail(Code::kNoMemory, "feed: no memory for the order of epoch {}", number);
  }
}

Status ReadingStage::check_memory(const EpochPlan& plan) const {
  if (plan.bytes_needed <= options_.memory_bytes_max) return {};
  return fail(
      Code::kNoMemory,
      "feed: epoch {} needs {} of chunks in memory at once, {} are left of "
      "memory_bytes_max; raise it, or lower what is shuffled together (lanes, their groups, "
      "the chunks)",
      plan.epoch, base::human_bytes(plan.bytes_needed),
      base::human_bytes(options_.memory_bytes_max));
}

}  // namespace forebay::feed
