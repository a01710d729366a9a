#include "feed/pipeline.h"

#include <algorithm>
#include <new>

#include "io/machine.h"

namespace forebay::feed {

using base::Code;
using base::fail;
using base::MutexLock;

namespace {

constexpr uint32_t kBlockMax = 32;    // slots a thread takes at once: amortises the lock
constexpr uint32_t kBlocksEach = 2;   // of a batch, for each thread at least: keeps all busy
constexpr uint64_t kBatchesHeld = 2;  // by the user, besides those prepared ahead

int thread_count(const FeedOptions& options) {
  return options.threads > 0 ? options.threads : io::usable_cores();
}

// How much of memory_bytes_max goes to chunks: twice what is needed, so that each lane's next group
// can be loaded in time; the rest is for batches. Where these vary, they get half of what is left
// at least.
Result<uint64_t> window_bytes(const FeedOptions& options, const EpochPlan& plan,
                              const BatchPool::Shape& shape) {
  const uint64_t batches = (static_cast<uint64_t>(options.prefetch) + kBatchesHeld) * shape.bytes();
  const auto needed = base::checked_add(plan.bytes_needed, batches);
  if (!needed || *needed > options.memory_bytes_max) {
    return fail(Code::kNoMemory,
                "feed: {} of chunks and {} of batches must be in memory at once, "
                "memory_bytes_max is {}; raise it, or lower {}",
                base::human_bytes(plan.bytes_needed), base::human_bytes(batches),
                base::human_bytes(options.memory_bytes_max),
                plan.bytes_needed > batches
                    ? "what is shuffled together (lanes, their groups, the chunks)"
                    : "the batches prepared ahead, or their size");
  }
  const uint64_t left = options.memory_bytes_max - batches - plan.bytes_needed;
  return plan.bytes_needed + std::min(plan.bytes_needed, shape.varies() ? left / 2 : left);
}

// Whether the page cache could not hold the dataset beside everything else.
bool exceeds_page_cache(uint64_t bytes) { return bytes > io::available_memory_bytes() / 2; }

}  // namespace

Result<std::unique_ptr<Pipeline>> Pipeline::open(const io::FileSystem& fs,
                                                 const store::Dataset& dataset,
                                                 const FeedOptions& options, const Planner& planner,
                                                 const BatchPool::Shape& shape, const Start& start,
                                                 Trace& trace) {
  ASSIGN_OR_RETURN(auto plan, planner.plan(start.epoch, planner.share().begin_of(start.step)));
  ASSIGN_OR_RETURN(const uint64_t bytes, window_bytes(options, *plan, shape));
  return std::unique_ptr<Pipeline>(
      new Pipeline(fs, dataset, options, planner, shape, start, std::move(plan), bytes, trace));
}

Pipeline::Pipeline(const io::FileSystem& fs, const store::Dataset& dataset,
                   const FeedOptions& options, const Planner& planner,
                   const BatchPool::Shape& shape, const Start& start,
                   std::shared_ptr<EpochPlan> first, uint64_t window_bytes, Trace& trace)
    : fs_(fs),
      dataset_(dataset),
      options_(options),
      planner_(planner),
      trace_(trace),
      sample_bytes_(shape.sample_bytes),
      varies_(shape.varies()),
      batch_bytes_max_(options.memory_bytes_max - window_bytes),
      batch_size_(shape.samples),
      pool_(std::make_shared<BatchPool>(
          shape, static_cast<uint64_t>(options.prefetch) + kBatchesHeld, batch_bytes_max_)),
      window_(fs, dataset, planner, std::move(first), window_bytes,
              options.uncached.value_or(exceeds_page_cache(planner.bytes())), trace),
      next_step_(start.step),
      gpu_share_(options.device == nullptr ? Decode::kHost : options.decode) {
  const auto threads = static_cast<uint32_t>(thread_count(options));
  block_size_ = std::clamp(batch_size_ / (threads * kBlocksEach), 1u, kBlockMax);
  for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this, i] { run(i); });
}

Pipeline::~Pipeline() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    work_.notify_all();
  }
  window_.stop();
  pool_->stop();
  for (std::thread& thread : threads_) thread.join();
}

void Pipeline::ask() {
  ++asked_;
  no_memory_ = false;
  work_.notify_one();
}

// Whether there is a batch, or a reason why there is none.
bool Pipeline::answered() const {
  if (pending_.empty()) return !plan_status_.ok() || no_memory_;
  return front_is_ready() || front_shortage();
}

bool Pipeline::front_is_ready() const { return pending_.front()->finished == batch_size_; }

// Blocks reserve in their order, so that the front batch has all that batches ahead do not have
// yet.
std::optional<BatchPool::Shortage> Pipeline::front_shortage() const {
  if (!varies_) return std::nullopt;
  const auto shortage = pool_->shortage();
  return shortage && shortage->turn < pending_.front()->turns_end ? shortage : std::nullopt;
}

Status Pipeline::no_room(const BatchPool::Shortage& shortage) const {
  return {
      Code::kNoMemory,
      fmt::format("feed: the next batch's images and files do not fit memory_bytes_max ({}): it "
                  "leaves {} for batches, those that are held and this one's beginning take "
                  "{}, and {} more are needed; let go of batches, make them smaller, or raise it",
                  base::human_bytes(options_.memory_bytes_max), base::human_bytes(batch_bytes_max_),
                  base::human_bytes(shortage.used), base::human_bytes(shortage.bytes))};
}

bool Pipeline::wait_ms(int ms) {
  MutexLock lock(mutex_);
  if (answered()) return true;
  waited_ |= ms > 0;
  ask();
  constexpr int64_t kNsPerMs = 1'000'000;
  const int64_t end = io::monotonic_ns() + ms * kNsPerMs;
  for (int64_t left = ms; !answered() && left > 0;
       left = (end - io::monotonic_ns() + kNsPerMs - 1) / kNsPerMs) {
    done_.wait_ms(mutex_, static_cast<int>(left));
  }
  return answered();
}

Result<Prepared> Pipeline::next() {
  MutexLock lock(mutex_);
  const bool waited = std::exchange(waited_, false);
  gpu_share_.asked(answered() && !waited);
  ask();  // also where there was no memory a moment ago
  while (!answered()) done_.wait(mutex_);
  while (!pending_.empty() && !front_is_ready()) {
    if (const auto shortage = front_shortage()) return tl::unexpected(no_room(*shortage));
    done_.wait(mutex_);  // somebody has just made room
  }
  const Status& status = pending_.empty() ? plan_status_ : pending_.front()->status;
  if (!status.ok()) {
    ended_ = true;
    return tl::unexpected(status);
  }
  if (pending_.empty()) {
    return fail(
        Code::kNoMemory,
        "feed: {} batches are held by the caller and no further one fits "
        "memory_bytes_max ({}), or the memory of the machine or GPU where they lie; let go of "
        "batches, raise it, or make room",
        pool_->in_use(), base::human_bytes(options_.memory_bytes_max));
  }
  Pending& front = *pending_.front();
  std::ranges::sort(front.bad, {}, [](const auto& entry) { return entry.first; });
  Prepared out{.batch = std::move(front.batch), .bad = {}};
  for (auto& entry : front.bad) out.bad.push_back(std::move(entry.second));
  pending_.pop_front();
  work_.notify_one();
  return out;
}

void Pipeline::add_to(FeedStats* stats) const {
  stats->bytes_read += bytes_read_;
  stats->made_on_gpu += made_on_gpu_;
  stats->prepare_ns += prepare_ns_;
  stats->idle_ns += idle_ns_;
  stats->batch_bytes_peak = std::max(stats->batch_bytes_peak, pool_->bytes_peak());
  window_.add_to(stats);
}

void Pipeline::run(uint32_t thread) {
  io::work_in_background();
  const Trace::Track track{.name = "decode", .number = thread};
  SampleMaker maker(fs_, dataset_, options_, block_size_, trace_, track);
  uint64_t bytes_read = 0;
  uint64_t made_on_gpu = 0;
  Block block;
  while (take(&block)) {
    const int64_t begin = io::thread_cpu_ns();
    {
      const Trace::Span span(trace_, "prepare", track, "batch", block.pending->step);
      fill(maker, &block);
    }
    prepare_ns_ += io::thread_cpu_ns() - begin;
    bytes_read_ += maker.bytes_read() - bytes_read;
    bytes_read = maker.bytes_read();
    made_on_gpu_ += maker.made_on_gpu() - made_on_gpu;
    made_on_gpu = maker.made_on_gpu();
    finish(&block);
  }
}

// The next slots in order; false when it is time to stop.
bool Pipeline::take(Block* block) {
  MutexLock lock(mutex_);
  while (!stopped_) {
    if (current_ != nullptr) {
      block->pending = current_;
      block->first = current_->taken;
      block->count = std::min(block_size_, batch_size_ - current_->taken);
      block->turn = next_turn_++;
      current_->turns_end = next_turn_;
      current_->taken += block->count;
      if (current_->taken == batch_size_) current_ = nullptr;
      // Each thread that takes a block wakes the next, so that nobody sleeps while there is work.
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
  const bool may_begin = !beginning_ && !no_memory_ && !complete_ && plan_status_.ok() &&
                         pending_.size() < static_cast<size_t>(options_.prefetch);
  // A further tensor must not take the room of files that come before it.
  const bool waits = varies_ && sample_bytes_ > 0;
  return may_begin && (!waits || pool_->turns_ended(next_turn_));
}

Status Pipeline::BlockRoom::reserve(uint64_t bytes) {
  if (bytes == 0) return {};
  return pipeline_.pool_->reserve(*block_.pending->batch, block_.turn, bytes, [this] {
    MutexLock lock(pipeline_.mutex_);
    pipeline_.done_.notify_one();
  });
}

void Pipeline::BlockRoom::add(uint64_t bytes) {
  pipeline_.pool_->add(*block_.pending->batch, bytes);
}

void Pipeline::end_turn(uint64_t turn) {
  if (!varies_) return;
  pool_->end_turn(turn);
  MutexLock lock(mutex_);
  work_.notify_one();
}

// Waits for the plan and touches new memory without the lock, so that batches that are ready can
// be consumed meanwhile.
void Pipeline::begin_batch() {
  beginning_ = true;
  auto pending = std::make_shared<Pending>();
  pending->step = next_step_;
  const uint64_t asked = asked_;
  mutex_.unlock();
  auto plan = window_.epoch();
  if (plan) pending->batch = pool_->take();
  const bool last = plan && pending->batch && pending->step + 1 == planner_.share().steps();
  if (last) window_.finish_epoch();
  mutex_.lock();
  beginning_ = false;
  if (!plan) {
    plan_status_ = plan.error();
  } else if (pending->batch == nullptr) {
    // Tried again when the consumer asks for a batch, and told to it only when it waits for this
    // very one. Had it asked meanwhile, it may have let go of a batch just before.
    no_memory_ = asked == asked_;
  } else {
    pending->plan = std::move(*plan);
    pending->batch->epoch = pending->plan->epoch;
    pending->batch->step = pending->step;
    next_step_ = last ? 0 : next_step_ + 1;
    complete_ = last && !planner_.goes_on(pending->plan->epoch);
    current_ = pending;
    pending_.push_back(std::move(pending));
  }
  if (current_ == nullptr) done_.notify_one();
}

void Pipeline::fill(SampleMaker& maker, Block* block) {
  block->status = {};
  block->bad.clear();
  std::vector<Task>& tasks = block->tasks;
  try {
    block->status = begin_tasks(maker, block);
    block->failed_slot = block->first;
    if (!block->status.ok()) return;
    BlockRoom room(*this, *block);
    maker.make(*block->pending->plan, window_, tasks, gpu_share_.next_is_on_gpu(), room);
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

// Tasks for the block's slots that have a position; the others, at a step's end, are left empty.
Status Pipeline::begin_tasks(SampleMaker& maker, Block* block) const {
  Batch& batch = *block->pending->batch;
  block->tasks.clear();
  const Share& share = planner_.share();
  const uint64_t step = block->pending->step;
  const uint64_t end = share.end_of(step);
  for (uint32_t slot = block->first; slot < block->first + block->count; ++slot) {
    const Slot out{.image = batch.images + size_t{slot} * sample_bytes_,
                   .whole = batch.whole.empty() ? nullptr : &batch.whole[slot],
                   .file = batch.files.empty() ? nullptr : &batch.files[slot],
                   .label = &batch.labels[slot],
                   .sample = &batch.samples[slot],
                   .valid = &batch.valid[slot]};
    const uint64_t position = share.position(step, slot);
    if (position < end) {
      block->tasks.push_back({.position = position, .slot = out});
    } else {
      RETURN_IF_ERROR(maker.leave_empty(out, kNoSample));
    }
  }
  return {};
}

void Pipeline::finish(Block* block) {
  end_turn(block->turn);
  MutexLock lock(mutex_);
  Pending& pending = *block->pending;
  std::ranges::move(block->bad, std::back_inserter(pending.bad));
  if (!block->status.ok() && (pending.status.ok() || block->failed_slot < pending.failed_slot)) {
    pending.status = block->status;
    pending.failed_slot = block->failed_slot;
  }
  pending.finished += block->count;
  if (pending.finished == batch_size_) done_.notify_one();
  block->pending = nullptr;
}

}  // namespace forebay::feed
