// Prefetches of a share: a few at once, and none while a read waits for the origin.
#include <algorithm>
#include <new>

#include "cache/share.h"
#include "io/machine.h"

namespace forebay::cache {

using base::MutexLock;

namespace {

// Prefetches at once. If reads block their threads, some threads must be left for reads that are
// needed now.
constexpr uint32_t kAheadMost = 8;
constexpr uint32_t kAheadWaitingMost = 4;
constexpr uint64_t kAheadBytes = 8u << 20;  // the most of one request
// After a failure of the origin no prefetch begins for so long; twice as long each time.
constexpr int64_t kWaitNs = 1'000'000'000;
constexpr int64_t kWaitMostNs = 30 * kWaitNs;

}  // namespace

io::PrefetchOutcome Share::prefetch(const std::string& target,
                                    const std::vector<WantedRange>& ranges) const {
  const auto name = named(target);
  const auto origin = name ? sources_.find(name->path) : nullptr;
  if (origin == nullptr) return io::PrefetchOutcome::kFull;
  const std::vector<WantedRange> missing = store_->missing(name->id, ranges);
  if (missing.empty()) return io::PrefetchOutcome::kKept;
  if (io::serve::bytes_of(missing) > kAheadBytes) return io::PrefetchOutcome::kFull;
  uint64_t room = 0;
  for (const WantedRange& range : missing) room += HeldRanges::room_for(range.length);
  auto* const self = const_cast<Share*>(this);
  const uint32_t most = origin->is_remote(name->path) ? kAheadMost : kAheadWaitingMost;
  const io::PrefetchOutcome answer = self->begin_ahead(room, most);
  if (answer == io::PrefetchOutcome::kComing) {
    self->reads_.push([self, target, missing] { self->read_ahead(target, missing); });
  }
  return answer;
}

// Opens the file itself, since the process that asked may close it before the bytes have come.
void Share::read_ahead(const std::string& target, const std::vector<WantedRange>& ranges) {
  const auto file = open_served(target);
  if (!file) return end_ahead(file.error());
  const auto memory = std::make_shared<base::ByteVector>();
  try {
    memory->resize(io::serve::bytes_of(ranges));
  } catch (const std::bad_alloc&) {
    return end_ahead(Status(base::Code::kNoMemory, "no memory for a prefetch"));
  }
  Ranges into;
  size_t at = 0;
  for (const WantedRange& range : ranges) {
    into.push_back({range.offset, base::MutableBytes(*memory).subspan(at, range.length)});
    at += range.length;
  }
  read_for(For::kAhead, *file, std::move(into), {.deadline_ns = {}, .stop = stop_.get_token()},
           [this, memory](const Status& status) { end_ahead(status); });
}

// kComing if a prefetch may begin now; then end_ahead() must follow.
io::PrefetchOutcome Share::begin_ahead(uint64_t room, uint32_t most) {
  MutexLock lock(mutex_);
  const uint64_t free = store_->free_bytes();
  if (room > free) return io::PrefetchOutcome::kFull;
  const bool is_needed_now =
      std::ranges::any_of(fetches_, [](const Fetch& fetch) { return !fetch.is_ahead; });
  // Bytes that are held already still count as coming for a moment.
  const bool is_room_promised = coming_bytes_ + room > free;
  if (is_room_promised || is_needed_now || ahead_ >= most || stop_.stop_requested() ||
      io::monotonic_ns() < ahead_from_ns_) {
    return io::PrefetchOutcome::kBusy;
  }
  ++ahead_;
  return io::PrefetchOutcome::kComing;
}

void Share::end_ahead(const Status& status) {
  MutexLock lock(mutex_);
  if (status.ok()) {
    ahead_wait_ns_ = 0;
  } else if (const int64_t now_ns = io::monotonic_ns(); now_ns >= ahead_from_ns_) {
    // Failures of prefetches that began earlier do not count again: they come while the wait lasts.
    ahead_wait_ns_ = std::clamp(2 * ahead_wait_ns_, kWaitNs, kWaitMostNs);
    ahead_from_ns_ = now_ns + ahead_wait_ns_;
  }
  if (--ahead_ == 0) ahead_ends_.notify_all();
}

// The prefetches in flight were told to stop.
void Share::wait_for_ahead() {
  MutexLock lock(mutex_);
  while (ahead_ > 0) ahead_ends_.wait(mutex_);
}

}  // namespace forebay::cache
