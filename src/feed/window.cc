#include "feed/window.h"

#include <algorithm>
#include <new>

#include "io/machine.h"

namespace forebay::feed {

using base::Code;
using base::fail;
using base::MutexLock;

namespace {

constexpr uint32_t kReaders = 2;   // one waits for the disk while the other copies
constexpr size_t kPlansAhead = 2;  // the epoch that is prepared, and the next one
// Between two reads a thread looks whether it is to stop. Whole blocks, for reads around the cache.
constexpr uint64_t kReadBytes = 8u << 20;
constexpr uint64_t kBufferUnit = 2u << 20;  // that io::LargeBuffer rounds to
constexpr size_t kSpareMax = 256;           // buffers

}  // namespace

Window::Window(const io::FileSystem& fs, const store::Dataset& dataset, const Planner& planner,
               std::shared_ptr<EpochPlan> first, uint64_t bytes_max, bool uncached, Trace& trace)
    : fs_(fs),
      dataset_(dataset),
      planner_(planner),
      bytes_max_(bytes_max),
      uncached_(uncached),
      trace_(trace) {
  spare_.reserve(kSpareMax);
  reading_ = first;
  plans_.push_back(std::move(first));
  for (uint32_t i = 0; i < kReaders; ++i) threads_.emplace_back([this, i] { run(i); });
}

Window::~Window() {
  stop();
  for (std::thread& thread : threads_) thread.join();
}

void Window::stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  work_.notify_all();
  ready_.notify_all();
}

Result<std::shared_ptr<EpochPlan>> Window::epoch() {
  MutexLock lock(mutex_);
  while (!stopped_ && plans_.empty() && plan_status_.ok()) ready_.wait(mutex_);
  if (stopped_) return fail(Code::kCancelled, "feed: stopped");
  if (plans_.empty()) return tl::unexpected(plan_status_);
  return plans_.front();
}

void Window::finish_epoch() {
  MutexLock lock(mutex_);
  plans_.pop_front();
  work_.notify_one();
}

Status Window::wait(const Load& load) {
  if (!load.loaded.load(std::memory_order_acquire)) {
    const int64_t begin = io::monotonic_ns();
    MutexLock lock(mutex_);
    while (!stopped_ && !load.loaded) ready_.wait(mutex_);
    starved_ns_ += io::monotonic_ns() - begin;
    if (!load.loaded) return fail(Code::kCancelled, "feed: stopped");
  }
  return load.status;
}

void Window::release(Load& load) {
  if (load.uses_left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  load.permutation = std::vector<uint32_t>();
  MutexLock lock(mutex_);
  bytes_ -= load.bytes;
  keep_buffers(load);
  work_.notify_all();
}

void Window::add_to(FeedStats* stats) const {
  stats->bytes_read += bytes_read_;
  stats->read_ns += read_ns_;
  stats->reading_ns += reading_ns_;
  stats->starved_ns += starved_ns_;
}

void Window::run(uint32_t thread) {
  io::work_in_background();
  const Trace::Track track{.name = "read", .number = thread};
  while (std::optional<Work> work = take()) {
    const int64_t begin = io::monotonic_ns();
    const int64_t cpu_begin = io::thread_cpu_ns();
    if (work->load != nullptr) {
      const Trace::Span span(trace_, "read", track, "bytes", work->load->bytes);
      read(*work->plan, *work->load);
    } else {
      const Trace::Span span(trace_, "plan", track, "epoch", work->epoch);
      make_plan(work->epoch);
    }
    read_ns_ += io::thread_cpu_ns() - cpu_begin;
    reading_ns_ += io::monotonic_ns() - begin;
  }
}

std::optional<Window::Work> Window::take() {
  MutexLock lock(mutex_);
  while (!stopped_) {
    if (std::optional<Work> work = next_work()) return work;
    work_.wait(mutex_);
  }
  return std::nullopt;
}

// Loads are taken in the order of need and only when they fit. What an earlier position needs is
// loaded then before what a later one does, and bytes_max holds what any one position needs, so
// the work in front can always go on and make room.
std::optional<Window::Work> Window::next_work() {
  if (next_load_ < reading_->loads.size()) {
    Load& load = *reading_->loads[next_load_];
    if (bytes_ + load.bytes > bytes_max_) return std::nullopt;
    bytes_ += load.bytes;
    drop_buffers();
    ++next_load_;
    return Work{.plan = reading_, .load = &load, .epoch = reading_->epoch};
  }
  if (planning_ || !planner_.goes_on(reading_->epoch) || plans_.size() >= kPlansAhead ||
      !plan_status_.ok()) {
    return std::nullopt;
  }
  planning_ = true;
  return Work{.plan = nullptr, .load = nullptr, .epoch = reading_->epoch + 1};
}

void Window::make_plan(uint64_t epoch) {
  Result<std::shared_ptr<EpochPlan>> plan;
  try {
    plan = planner_.plan(epoch, 0);
  } catch (const std::bad_alloc&) {
    plan = fail(Code::kNoMemory, "feed: no memory for the order of epoch {}", epoch);
  }
  MutexLock lock(mutex_);
  planning_ = false;
  if (!plan) {
    plan_status_ = plan.error();
  } else if ((*plan)->bytes_needed > bytes_max_) {
    plan_status_ =
        fail(Code::kNoMemory,
             "feed: epoch {} needs {} of chunks in memory at once, {} are left of "
             "memory_bytes_max; raise it, or lower what is shuffled together (lanes, their groups, "
             "the chunks)",
             epoch, base::human_bytes((*plan)->bytes_needed), base::human_bytes(bytes_max_));
  } else {
    plans_.push_back(*plan);
    reading_ = std::move(*plan);
    next_load_ = 0;
  }
  work_.notify_all();
  ready_.notify_all();
}

void Window::read(const EpochPlan& plan, Load& load) {
  try {
    load.status = read_group(plan, load);
  } catch (const std::bad_alloc&) {
    load.status =
        fail(Code::kNoMemory, "feed: no memory for {} of chunks", base::human_bytes(load.bytes));
  }
  MutexLock lock(mutex_);
  load.loaded.store(true, std::memory_order_release);
  ready_.notify_all();
}

Status Window::read_group(const EpochPlan& plan, Load& load) {
  const Group& group = plan.order.groups()[load.group];
  load.permutation = plan.order.permutation(group);
  for (const Part& part : plan.order.parts(group)) {
    load.parts.push_back(span_of(dataset_, part));
    RETURN_IF_ERROR(read_part(part, &load.parts.back()));
  }
  return {};
}

// A chunk that ends too early still holds good samples, and one in place that changed is said to be
// at each of its samples: they are read one by one then. Anything else that fails is no matter of
// single samples.
Status Window::read_part(const Part& part, PartBytes* bytes) {
  if (bytes->length == 0) return {};
  const auto file = open_chunk(part.chunk);
  if (!file) return file.error().at("feed");
  const Status unchanged = dataset_.check_unchanged(fs_, **file, part.chunk);
  if (unchanged.code() == Code::kCorrupt) return {};
  if (!unchanged.ok()) return unchanged.at("feed");
  // At the same place in a block as in the file (io::FileSystem::open_uncached).
  const uint64_t first_block = bytes->offset % io::kDirectAlignment;
  io::LargeBuffer memory = take_buffer(first_block + bytes->length);
  uint8_t* const data = memory.data() + first_block;
  for (uint64_t at = 0; at < bytes->length;) {
    if (stopped_) return fail(Code::kCancelled, "feed: stopped");
    const uint64_t to_border = kReadBytes - (bytes->offset + at) % kReadBytes;
    const uint64_t length = std::min(to_border, bytes->length - at);
    const Status status = (*file)->read(bytes->offset + at, {data + at, length});
    if (status.code() == Code::kCorrupt) return {};
    if (!status.ok()) return status.at("feed");
    at += length;
    bytes_read_ += length;
  }
  bytes->memory = std::move(memory);
  bytes->data = data;
  return {};
}

Result<std::unique_ptr<io::RandomFile>> Window::open_chunk(uint32_t chunk) const {
  const std::string path = dataset_.chunk_path(chunk);
  return uncached_ ? fs_.open_uncached(path) : fs_.open(path);
}

// The smallest spare one that is large enough and not much larger, as only what is asked for is
// counted; or a new one.
io::LargeBuffer Window::take_buffer(uint64_t bytes) {
  {
    MutexLock lock(mutex_);
    auto best = spare_.end();
    for (auto it = spare_.begin(); it != spare_.end(); ++it) {
      const bool fits = it->size() >= bytes && it->size() <= bytes + bytes / 8 + kBufferUnit;
      if (fits && (best == spare_.end() || it->size() < best->size())) best = it;
    }
    if (best != spare_.end()) {
      io::LargeBuffer buffer = std::move(*best);
      spare_.erase(best);
      spare_bytes_ -= buffer.size();
      return buffer;
    }
  }
  return io::LargeBuffer(bytes);
}

// Allocates nothing: it must not fail.
void Window::keep_buffers(Load& load) {
  for (PartBytes& part : load.parts) {
    if (part.memory.size() == 0 || spare_.size() == kSpareMax) continue;
    spare_bytes_ += part.memory.size();
    spare_.push_back(std::move(part.memory));
  }
  load.parts = std::vector<PartBytes>();
  drop_buffers();
}

// Spare memory counts too: the oldest goes.
void Window::drop_buffers() {
  while (!spare_.empty() && bytes_ + spare_bytes_ > bytes_max_) {
    spare_bytes_ -= spare_.front().size();
    spare_.erase(spare_.begin());
  }
}

}  // namespace forebay::feed
