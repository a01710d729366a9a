#include "feed/make/pipeline.h"

#include <algorithm>
#include <new>

#include "feed/make/pipeline_memory.h"
#include "io/machine.h"

namespace forebay::feed {

using base::Code;
using base::fail;
using base::MutexLock;

namespace {

constexpr uint32_t kBlockSlots = 32;  // slots that a thread takes at once: amortises the lock
constexpr uint32_t kBlocksEach = 2;   // blocks of a batch for each thread, to keep all busy
constexpr size_t kEndsAhead = 2;      // ends of epochs without a batch that may be queued

int thread_count(const FeedOptions& options) {
  return options.threads > 0 ? options.threads : io::usable_cores();
}

BatchPool::Shape shape_of(const FeedOptions& options, const Steps& steps) {
  return {.samples = static_cast<uint32_t>(steps.batch()),
          .sample_bytes = SlotWriter(options).sample_bytes(),
          .images_each = static_cast<uint32_t>(1 + options.further.size()),
          .size = options.transform.size,
          .device = options.device,
          .whole = options.images == Images::kWhole || options.images == Images::kOwnSize,
          .files = options.files,
          .targets = options.targets != nullptr};
}

// Unless the options decide it, reads bypass the page cache if it could not hold the dataset from
// one epoch to the next.
store::Caching caching_of(const FeedOptions& options, const EpochPlan& plan) {
  const bool is_large = plan.bytes > io::available_memory_bytes() / 2;
  return options.uncached.value_or(is_large) ? store::Caching::kUncached : store::Caching::kCached;
}

}  // namespace

Result<std::unique_ptr<Pipeline>> Pipeline::open(const store::Dataset& dataset,
                                                 const FeedOptions& options, const Planner& planner,
                                                 StepSchedule& schedule, const StepRun& first,
                                                 ChunkIndexes& indexes, Crews& crews, Trace& trace,
                                                 const io::Clock& clock,
                                                 const std::stop_token& stop) {
  ASSIGN_OR_RETURN(auto plan, planner.plan(first, {.deadline_ns = {}, .stop = stop}));
  const BatchPool::Shape shape = shape_of(options, planner.steps());
  ASSIGN_OR_RETURN(const uint64_t bytes, divide_memory(options, *plan, shape));
  return std::unique_ptr<Pipeline>(new Pipeline(dataset, options, planner, schedule, shape, plan,
                                                bytes, indexes, crews, trace, clock));
}

Pipeline::Pipeline(const store::Dataset& dataset, const FeedOptions& options,
                   const Planner& planner, StepSchedule& schedule, const BatchPool::Shape& shape,
                   const std::shared_ptr<const EpochPlan>& first, uint64_t group_bytes_max,
                   ChunkIndexes& indexes, Crews& crews, Trace& trace, const io::Clock& clock)
    : dataset_(dataset),
      options_(options),
      planner_(planner),
      schedule_(schedule),
      crews_(crews),
      trace_(trace),
      clock_(clock),
      sample_bytes_(shape.sample_bytes),
      varies_(shape.varies()),
      batch_bytes_max_(options.memory_bytes_max - group_bytes_max - plan_bytes(*first)),
      batch_size_(shape.samples),
      pool_(std::make_shared<BatchPool>(
          shape, static_cast<uint64_t>(options.prefetch) + kBatchesHeld, batch_bytes_max_)),
      slicer_(dataset, options, indexes),
      reading_(dataset, planner, schedule, slicer_, first,
               {.memory_bytes_max = group_bytes_max,
                .caching = caching_of(options, *first),
                .first_batch_end = planner.steps().end_of(first->run.first)},
               crews.reading, trace),
      gpu_share_(options.device == nullptr ? Decode::kHost : options.decode) {
  const auto threads = static_cast<uint32_t>(thread_count(options));
  block_size_ = std::clamp(batch_size_ / (threads * kBlocksEach), 1u, kBlockSlots);
  crews_.decoders.start(threads, [this](uint32_t thread) { run(thread); });
}

Pipeline::~Pipeline() {
  stop();
  crews_.decoders.wait();
}

void Pipeline::stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    work_.notify_all();
    done_.notify_all();
  }
  reading_.stop();
  pool_->stop();
}

void Pipeline::ask() {
  ++asked_;
  no_memory_ = false;
  work_.notify_one();
}

// Whether next() has a batch or an error to return.
bool Pipeline::answered() const {
  if (unfinished_.empty()) return !plan_status_.ok() || no_memory_;
  return front_is_ready() || front_shortage();
}

bool Pipeline::front_is_ready() const {
  const UnfinishedBatch& front = *unfinished_.front();
  return front.batch == nullptr || front.finished == batch_size_;
}

// Blocks reserve memory in order, so no later batch takes memory that the front batch needs.
std::optional<BatchPool::Shortage> Pipeline::front_shortage() const {
  if (!varies_) return std::nullopt;
  const auto shortage = pool_->shortage();
  return shortage && shortage->block < unfinished_.front()->blocks_end ? shortage : std::nullopt;
}

Status Pipeline::no_room(const BatchPool::Shortage& shortage) const {
  return {
      Code::kNoMemory,
      fmt::format("feed: the next batch's images and files do not fit memory_bytes_max ({}): of {} "
                  "for batches, batches in use and the beginning of the next one take {}, and {} "
                  "more are needed; release batches, make them smaller, or raise memory_bytes_max",
                  base::human_bytes(options_.memory_bytes_max), base::human_bytes(batch_bytes_max_),
                  base::human_bytes(shortage.used), base::human_bytes(shortage.bytes))};
}

bool Pipeline::wait_ms(int ms) {
  MutexLock lock(mutex_);
  if (answered()) return true;
  waited_ |= ms > 0;
  ask();
  const int64_t deadline_ns = clock_.now_ns() + ms * int64_t{1'000'000};
  while (!answered() && clock_.wait_until(mutex_, done_, deadline_ns)) {
  }
  return answered();
}

Result<Prepared> Pipeline::next() {
  MutexLock lock(mutex_);
  const bool waited = std::exchange(waited_, false);
  gpu_share_.asked(answered() && !waited);
  ask();  // tries again if there was no memory before
  while (!stopped_ && !answered()) done_.wait(mutex_);
  while (!stopped_ && !unfinished_.empty() && !front_is_ready()) {
    if (const auto shortage = front_shortage()) {
      // If only this pipeline holds batches, nobody else can make room, so the error is final.
      const auto own = std::ranges::count_if(
          unfinished_, [](const auto& each) { return each->batch != nullptr; });
      ended_ = pool_->in_use() == static_cast<size_t>(own);
      return tl::unexpected(no_room(*shortage));
    }
    done_.wait(mutex_);  // there is room by now
  }
  if (stopped_) return fail(Code::kCancelled, "feed: stopped");
  const Status& status = unfinished_.empty() ? plan_status_ : unfinished_.front()->status;
  if (!status.ok()) {
    ended_ = true;
    return tl::unexpected(status);
  }
  if (unfinished_.empty()) {
    return fail(
        Code::kNoMemory,
        "feed: the caller holds {} batches, and no further one fits memory_bytes_max ({}) or the "
        "memory of the machine or GPU; release batches, raise memory_bytes_max, or free memory",
        pool_->in_use(), base::human_bytes(options_.memory_bytes_max));
  }
  UnfinishedBatch& front = *unfinished_.front();
  std::ranges::sort(front.bad, {}, [](const auto& entry) { return entry.first; });
  Prepared out{.batch = std::move(front.batch), .bad = {}};
  for (auto& entry : front.bad) out.bad.push_back(std::move(entry.second));
  unfinished_.pop_front();
  work_.notify_one();
  return out;
}

void Pipeline::add_to(FeedStats* stats) const {
  stats->bytes_read += bytes_read_;
  stats->whole_bytes += bytes_read_;
  stats->requests += reads_;
  stats->ranges += reads_;
  stats->made_on_gpu += made_on_gpu_;
  stats->prepare_ns += prepare_ns_;
  stats->idle_ns += idle_ns_;
  stats->batch_bytes_peak = std::max(stats->batch_bytes_peak, pool_->bytes_peak());
  reading_.add_to(stats);
}

void Pipeline::run(uint32_t thread) {
  io::work_in_background();
  const Trace::Track track{.name = "decode", .number = thread};
  SampleMaker maker(dataset_, options_, block_size_, trace_, track);
  uint64_t bytes_read = 0;
  uint64_t reads = 0;
  uint64_t made_on_gpu = 0;
  Block block;
  while (take(&block)) {
    const int64_t begin = io::thread_cpu_ns();
    {
      const Trace::Span span(trace_, "prepare", track, "batch", block.of->step);
      fill(maker, &block);
    }
    prepare_ns_ += io::thread_cpu_ns() - begin;
    bytes_read_ += maker.bytes_read() - bytes_read;
    bytes_read = maker.bytes_read();
    reads_ += maker.reads() - reads;
    reads = maker.reads();
    made_on_gpu_ += maker.made_on_gpu() - made_on_gpu;
    made_on_gpu = maker.made_on_gpu();
    finish(&block);
  }
}

// Takes the next block of slots, in order; returns false after stop().
bool Pipeline::take(Block* block) {
  MutexLock lock(mutex_);
  while (!stopped_) {
    if (current_ != nullptr) {
      block->of = current_;
      block->first = current_->taken;
      block->count = std::min(block_size_, batch_size_ - current_->taken);
      block->number = next_block_++;
      current_->blocks_end = next_block_;
      current_->taken += block->count;
      if (current_->taken == batch_size_) current_ = nullptr;
      // Each thread that takes a block wakes another, so that none sleeps while there is work.
      work_.notify_one();
      return true;
    }
    if (has_room()) {
      begin_batch();
    } else {
      const int64_t begin = io::monotonic_ns();
      work_.wait(mutex_);
      idle_ns_ += io::monotonic_ns() - begin;
    }
  }
  return false;
}

bool Pipeline::has_room() const {
  const auto begun = static_cast<size_t>(
      std::ranges::count_if(unfinished_, [](const auto& each) { return each->batch != nullptr; }));
  const bool may_begin = !beginning_ && !no_memory_ && !complete_ && plan_status_.ok() &&
                         begun < static_cast<size_t>(options_.prefetch) &&
                         unfinished_.size() - begun < kEndsAhead;
  // A new batch's tensor must not take memory that the files of earlier batches need.
  const bool waits = varies_ && sample_bytes_ > 0;
  return may_begin && (!waits || pool_->blocks_ended(next_block_));
}

Status Pipeline::BlockReservation::reserve(uint64_t bytes) {
  if (bytes == 0) return {};
  return pipeline_.pool_->reserve(*block_.of->batch, block_.number, bytes, [this] {
    MutexLock lock(pipeline_.mutex_);
    pipeline_.done_.notify_one();
  });
}

void Pipeline::BlockReservation::add(uint64_t bytes) {
  pipeline_.pool_->add(*block_.of->batch, bytes);
}

void Pipeline::end_block(uint64_t number) {
  if (!varies_) return;
  pool_->end_block(number);
  MutexLock lock(mutex_);
  work_.notify_one();
}

// Moves `step` over the steps of a run that others prepare. Returns false when no step is left.
bool Pipeline::go_to_next_step(EpochData& run, uint64_t* step) {
  const StepRun& of = run.plan->run;
  const Steps& steps = planner_.steps();
  std::vector<uint64_t> left_out;
  for (; *step < of.end && !options_.filter->takes(of.epoch, *step); ++*step) {
    for (uint64_t slot = 0; slot < batch_size_; ++slot) {
      const uint64_t position = steps.position(*step, slot);
      if (position < steps.end_of(*step)) left_out.push_back(position);
    }
  }
  if (!left_out.empty()) reading_.leave_out(run, left_out);
  return *step < of.end;
}

// Waits for the plan and touches new memory without the lock, so that ready batches can be consumed
// meanwhile.
void Pipeline::begin_batch() {
  beginning_ = true;
  auto batch = std::make_shared<UnfinishedBatch>();
  const uint64_t asked = asked_;
  const std::optional<uint64_t> next = next_step_;
  bool is_any = options_.filter == nullptr || next_is_taken_;
  mutex_.unlock();
  auto run = reading_.run();
  if (run) {
    batch->step = next.value_or((*run)->plan->run.first);
    if (!is_any) is_any = go_to_next_step(**run, &batch->step);
    if (is_any) batch->batch = pool_->take();
  }
  const bool has_begun = run && (batch->batch != nullptr || !is_any);
  const bool last = has_begun && (!is_any || batch->step + 1 == (*run)->plan->run.end);
  if (last) reading_.finish_run();
  mutex_.lock();
  beginning_ = false;
  if (!run) {
    plan_status_ = run.error();
  } else if (!has_begun) {
    next_step_ = batch->step;
    next_is_taken_ = true;
    // The consumer's next request tries again, and gets the error only if it waits for this very
    // batch. If the consumer asked while the lock was released, it may have released a batch
    // before.
    no_memory_ = asked == asked_;
  } else {
    const StepRun of = (*run)->plan->run;
    next_step_ = last ? std::nullopt : std::optional(batch->step + 1);
    next_is_taken_ = false;
    complete_ = last && !schedule_.goes_on(of);
    batch->epoch = std::move(*run);
    if (is_any) {
      batch->batch->epoch = of.epoch;
      batch->batch->step = batch->step;
      current_ = batch;
    }
    unfinished_.push_back(std::move(batch));
  }
  if (current_ == nullptr) {
    done_.notify_one();
    work_.notify_one();
  }
}

// Tells the filter which batches next() can return one after the other without waiting.
void Pipeline::tell_what_is_made() {
  if (options_.filter == nullptr) return;
  for (const auto& batch : unfinished_) {
    if (batch->batch == nullptr) continue;
    if (batch->finished != batch_size_) return;
    if (!std::exchange(batch->told, true))
      options_.filter->made(batch->epoch->plan->epoch, batch->step);
  }
}

void Pipeline::fill(SampleMaker& maker, Block* block) {
  block->status = {};
  block->bad.clear();
  std::vector<Task>& tasks = block->tasks;
  try {
    block->status = begin_tasks(maker, block);
    block->failed_slot = block->first;
    if (!block->status.ok()) return;
    BlockReservation room(*this, *block);
    maker.make(*block->of->epoch, reading_, tasks, gpu_share_.next_is_on_gpu(), room);
  } catch (const std::bad_alloc&) {
    block->status = fail(Code::kNoMemory, "feed: no memory to prepare a sample");
    block->failed_slot = block->first;
    return;
  }
  for (size_t i = 0; i < tasks.size(); ++i) {
    const auto slot = block->first + static_cast<uint32_t>(i);
    if (!tasks[i].status.ok()) {
      block->status = std::move(tasks[i].status);
      block->failed_slot = slot;
      return;
    }
    if (tasks[i].bad) block->bad.emplace_back(slot, std::move(*tasks[i].bad));
  }
}

// Makes tasks for the block's slots that have a position. Others, at a step's end, are left empty.
Status Pipeline::begin_tasks(SampleMaker& maker, Block* block) const {
  Batch& batch = *block->of->batch;
  block->tasks.clear();
  const Steps& steps = planner_.steps();
  const uint64_t step = block->of->step;
  const uint64_t end = steps.end_of(step);
  for (uint32_t slot = block->first; slot < block->first + block->count; ++slot) {
    const Slot out{.image = batch.images + size_t{slot} * sample_bytes_,
                   .whole = batch.whole.empty() ? nullptr : &batch.whole[slot],
                   .file = batch.files.empty() ? nullptr : &batch.files[slot],
                   .targets = batch.targets.empty() ? nullptr : &batch.targets[slot],
                   .slots = batch_size_,
                   .label = &batch.labels[slot],
                   .sample = &batch.samples[slot],
                   .drawn_for = &batch.drawn_for[slot],
                   .valid = &batch.valid[slot]};
    const uint64_t position = steps.position(step, slot);
    if (position < end) {
      block->tasks.push_back({.position = position, .slot = out});
    } else {
      RETURN_IF_ERROR(maker.leave_empty(out, kNoSample, 0));
    }
  }
  return {};
}

void Pipeline::finish(Block* block) {
  end_block(block->number);
  MutexLock lock(mutex_);
  UnfinishedBatch& batch = *block->of;
  std::ranges::move(block->bad, std::back_inserter(batch.bad));
  if (!block->status.ok() && (batch.status.ok() || block->failed_slot < batch.failed_slot)) {
    batch.status = block->status;
    batch.failed_slot = block->failed_slot;
  }
  batch.finished += block->count;
  if (batch.finished == batch_size_) {
    tell_what_is_made();
    done_.notify_one();
  }
  block->of = nullptr;
}

}  // namespace forebay::feed
