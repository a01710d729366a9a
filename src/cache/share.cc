#include "cache/share.h"

#include <algorithm>
#include <new>

#include "base/limits.h"
#include "cache/peers/file_name.h"
#include "io/machine.h"

namespace forebay::cache {

using base::Code;
using base::fail;
using base::MutexLock;

namespace {

constexpr uint32_t kReaders = 8;
constexpr size_t kNames = 4096;

// Prefetches at once. If reads block their threads, some threads must be left for reads that are
// needed now.
constexpr uint32_t kAheadMost = 8;
constexpr uint32_t kAheadWaitingMost = 4;
constexpr uint64_t kAheadBytes = 8u << 20;  // the most of one request
// After a failure of the origin no prefetch begins for so long; twice as long each time.
constexpr int64_t kWaitNs = 1'000'000'000;
constexpr int64_t kWaitMostNs = 30 * kWaitNs;

}  // namespace

Result<std::unique_ptr<Share>> Share::open(const ShareOptions& options,
                                           const DatasetOrigins& sources, Peers& peers) {
  ASSIGN_OR_RETURN(auto store, HeldRanges::open(options.memory, options.disk, options.found));
  std::unique_ptr<Share> share(new Share(options, sources, peers, std::move(store)));
  try {
    share->keepers_.reserve(1);
    share->readers_.reserve(kReaders);
  } catch (const base::NoThread& error) {
    share->stay();
    return fail(Code::kNoMemory, "{}", error.what());
  }
  share->keepers_.start(1, [own = share.get()](uint32_t) {
    io::work_in_background();
    while (const auto job = own->jobs_.pop()) (*job)();
  });
  share->readers_.start(kReaders, [own = share.get()](uint32_t) {
    while (const auto read = own->reads_.pop()) (*read)();
  });
  const Status status = share->serve(options);
  if (status.ok()) return share;
  share->stay();
  return tl::unexpected(status);
}

Status Share::serve(const ShareOptions& options) {
  io::serve::RangeServerOptions server = options.server;
  if (server.job == nullptr) server.local_secret = local_secret_;
  ASSIGN_OR_RETURN(server_, io::serve::RangeServer::start(server, *this));
  if (!options.everywhere) return {};
  auto local = std::make_unique<Local>(*this);
  local->everywhere = options.everywhere;
  local->forget_everywhere = options.forget_everywhere;
  ASSIGN_OR_RETURN(local->server,
                   io::serve::RangeServer::start(
                       {.local_secret = local_secret_, .wait_ns = options.server.wait_ns}, *local));
  local_ = std::move(local);
  return {};
}

Share::~Share() { end(); }

void Share::end() {
  stop_.request_stop();
  local_.reset();
  server_.reset();
  wait_for_ahead();
  reads_.close();
  readers_.wait();
  jobs_.close();
  keepers_.wait();
}

void Share::read(const File& file, Ranges ranges, const io::ReadOptions& options, bool anew,
                 Done done) {
  read_for(anew ? For::kAnew : For::kItself, file, std::move(ranges), options, std::move(done));
}

// A read of bytes that are being fetched already waits for that fetch, and then looks again.
void Share::read_for(For whom, const File& file, Ranges ranges, const io::ReadOptions& options,
                     Done done) {
  TierBytes hits;
  Ranges missing = store_->read(file->id, ranges, &hits);
  if (missing.empty()) {
    count(whom, hits);
    return done({});
  }
  Fetches::iterator own;
  {
    MutexLock lock(mutex_);
    for (Fetch& other : fetches_) {
      const bool overlaps =
          other.file == file->id && std::ranges::any_of(other.spans, [&](const auto& span) {
            return std::ranges::any_of(missing, [&](const io::Range& range) {
              return range.offset < span.second && span.first < range.offset + range.out.size();
            });
          });
      if (!overlaps) continue;
      other.is_ahead &= whom == For::kAhead;
      count(whom, hits);
      other.waiters.push_back(
          waiter_for(options.stop, done, [this, file, missing, options, whom, done] {
            read_for(whom, file, missing, options, done);
          }));
      return;
    }
    own = fetches_.insert(
        fetches_.end(),
        Fetch{.file = file->id, .is_ahead = whom == For::kAhead, .spans = {}, .waiters = {}});
    for (const io::Range& range : missing) {
      own->spans.emplace_back(range.offset, range.offset + range.out.size());
    }
  }
  // Another fetch may have ended since the first look.
  missing = store_->read(file->id, missing, &hits);
  count(whom, hits);
  if (!missing.empty()) return fetch(whom, file, missing, options, own, std::move(done));
  finish_fetch(own);
  done({});
}

// Returns what to call when the awaited fetch has ended. A read that is stopped before no longer
// waits, but the fetch goes on, because other reads may need it.
std::function<void()> Share::waiter_for(const std::stop_token& stop, const Done& done,
                                        std::function<void()> look_again) {
  struct Waiter {
    std::atomic<bool> is_over = false;
    std::optional<std::stop_callback<std::function<void()>>> on_stop = {};
  };
  const auto waiter = std::make_shared<Waiter>();
  waiter->on_stop.emplace(stop, [this, weak = std::weak_ptr(waiter), done] {
    const auto stopped = weak.lock();
    if (stopped == nullptr || stopped->is_over.exchange(true)) return;
    jobs_.push([done] { done(fail(Code::kCancelled, "a read from the cache was stopped")); });
  });
  return [waiter, look_again = std::move(look_again)] {
    if (!waiter->is_over.exchange(true)) look_again();
  };
}

void Share::count(For whom, const TierBytes& hits) const {
  Hits& counted = whom == For::kItself || whom == For::kAnew ? own_hits_ : served_hits_;
  counted.memory += hits.memory;
  counted.disk += hits.disk;
}

// Fetches the parts of the ranges that other members hold from them, whether this machine has room
// for them or not, and the rest from the origin.
void Share::fetch(For whom, const File& file, const Ranges& ranges, const io::ReadOptions& options,
                  Fetches::iterator fetch, Done done) {
  Plan plan = plan_fetch(whom, ranges);
  if (whom == For::kFullMember || whom == For::kAnew) {
    return fetch_rest(file, std::move(plan), ranges, options, fetch, std::move(done));
  }
  if (whom == For::kAhead) plan.over.clear();  // no reader misses these bytes yet
  Ranges over = plan.over;
  others_.hand_over(
      file, std::move(over), options,
      [this, file, plan = std::move(plan), options, fetch, done = std::move(done)](Ranges left) {
        Ranges here = plan.here;
        others_.take_over(
            file, std::move(here), options,
            [this, file, plan, left = std::move(left), options, fetch, done](Ranges rest) mutable {
              plan.here.insert(plan.here.end(), left.begin(), left.end());
              rest.insert(rest.end(), left.begin(), left.end());
              std::ranges::sort(rest, {}, &io::Range::offset);
              fetch_rest(file, std::move(plan), std::move(rest), options, fetch, done);
            });
      });
}

// Reserves the room that there is, from the first range on; a range that does not fit is cut
// between extents.
Share::Plan Share::plan_fetch(For whom, const Ranges& ranges) {
  Plan plan;
  plan.whom = whom;
  MutexLock lock(mutex_);
  const uint64_t free = store_->free_bytes();
  uint64_t left = free - std::min(free, coming_bytes_);
  for (const io::Range& range : ranges) {
    uint64_t length = range.out.size();
    if (whom != For::kFullMember && room_for(length) > left) {
      const uint64_t end =
          (range.offset + length * left / room_for(length)) / kExtentBytes * kExtentBytes;
      length = end > range.offset ? end - range.offset : 0;
    }
    if (length > 0) {
      const uint64_t room = room_for(length);
      plan.here.push_back({range.offset, range.out.first(length), range.again});
      plan.room += room;
      left -= std::min(left, room);
    }
    if (length < range.out.size()) {
      plan.over.push_back({range.offset + length, range.out.subspan(length), range.again});
    }
  }
  coming_bytes_ += plan.room;
  return plan;
}

// Fetches what is left of the ranges from the origin, and keeps what comes.
void Share::fetch_rest(const File& file, Plan plan, Ranges rest, const io::ReadOptions& options,
                       Fetches::iterator fetch, Done done) {
  const uint64_t bytes = io::bytes_of(rest);
  auto keep = [this, file, plan = std::move(plan), bytes, fetch,
               done = std::move(done)](const Status& status) {
    jobs_.push([this, file, plan, bytes, fetch, done, status] {
      if (status.ok()) {
        origin_bytes_ += bytes;
        if (plan.whom == For::kAhead) ahead_bytes_ += bytes;
        for (const io::Range& range : plan.here) {
          store_->keep(file->id, range.offset, range.out, range.again);
        }
      }
      {
        MutexLock lock(mutex_);
        coming_bytes_ -= plan.room;
      }
      finish_fetch(fetch);
      done(status);
    });
  };
  if (rest.empty()) return keep({});
  auto read = [file, rest = io::joined(std::move(rest)), options, keep = std::move(keep)] {
    file->file->start(rest, options, keep);
  };
  if (!file->waits) return read();
  reads_.push(std::move(read));
}

void Share::finish_fetch(Fetches::iterator fetch) {
  std::vector<std::function<void()>> waiters;
  {
    MutexLock lock(mutex_);
    waiters = std::move(fetch->waiters);
    fetches_.erase(fetch);
  }
  for (auto& waiter : waiters) jobs_.push(std::move(waiter));
}

std::optional<Share::Named> Share::named(const std::string& target) const {
  {
    MutexLock lock(names_mutex_);
    if (const auto found = names_.find(target); found != names_.end()) return found->second;
  }
  const auto name = decode_target(target);
  if (!name) return std::nullopt;
  Named named{
      .path = name->path, .size = name->identity.size, .id = base::sha256(base::as_bytes(target))};
  MutexLock lock(names_mutex_);
  if (names_.size() >= kNames) names_.clear();
  return names_.insert_or_assign(target, std::move(named)).first->second;
}

std::optional<uint64_t> Share::size(const std::string& target) const {
  if (target == kFiguresTarget) return base::kFiguresBytesMax;
  const auto name = named(target);
  if (!name || sources_.find(name->path) == nullptr) return std::nullopt;
  return name->size;
}

Result<Share::File> Share::open_served(const std::string& target) const {
  ASSIGN_OR_RETURN(const FileName name, decode_target(target));
  auto origin = sources_.find(name.path);
  if (origin == nullptr) return fail(Code::kNotFound, "{}: in no dataset of this job", name.path);
  ASSIGN_OR_RETURN(auto opened, origin->open(name.path, {.known = name.identity}));
  return std::make_shared<const CachedFile>(CachedFile{.target = target,
                                                       .id = base::sha256(base::as_bytes(target)),
                                                       .file = std::move(opened),
                                                       .waits = !origin->is_remote(name.path),
                                                       .owner = std::move(origin)});
}

std::optional<std::vector<io::serve::HeldRange>> Share::find(
    const std::string& target, const std::vector<WantedRange>& ranges) const {
  const auto name = named(target);
  if (!name) return std::nullopt;
  TierBytes hits;
  auto held = store_->find(name->id, ranges, &hits);
  if (held) count(For::kOthers, hits);
  return held;
}

void Share::forget(const std::string& target, const std::vector<WantedRange>& ranges) const {
  const auto name = named(target);
  if (!name) return;
  for (const WantedRange& range : ranges) store_->forget(name->id, range.offset, range.length);
  others_.forget(name->id, target, name->size, ranges);
}

// Another thread than the origin's gives the answer, because the origin's thread must not hold the
// last reference to the origin.
void Share::read_served(For whom, const std::string& target, Ranges ranges, Done done) const {
  auto file = open_served(target);
  if (!file) return done(file.error());
  auto* const self = const_cast<Share*>(this);
  self->read_for(whom, *file, std::move(ranges), {.deadline_ns = {}, .stop = stop_.get_token()},
                 std::move(done));
}

void Share::read(const std::string& target, Ranges ranges, Done done) const {
  if (target == kFiguresTarget) {
    const std::string text = figures_();
    for (const io::Range& range : ranges) {
      std::copy_n(text.begin() + static_cast<ptrdiff_t>(range.offset), range.out.size(),
                  range.out.begin());
    }
    return done({});
  }
  read_served(For::kOthers, target, std::move(ranges), std::move(done));
}

void Share::hold(const std::string& target, Ranges ranges, Done done) const {
  read_served(For::kFullMember, target, std::move(ranges), std::move(done));
}

// True also without room if at least half of the bytes are held already: the rest is then read from
// the origin each time, while the other member would have to read all of them.
bool Share::may_hold(const std::string& target, const std::vector<WantedRange>& ranges) const {
  const auto name = named(target);
  if (!name) return false;
  const uint64_t missing = io::serve::bytes_of(store_->missing(name->id, ranges));
  if (missing <= io::serve::bytes_of(ranges) / 2) return true;
  MutexLock lock(mutex_);
  return coming_bytes_ + room_for(missing) <= store_->free_bytes();
}

void Share::Local::read(const std::string& target, Ranges ranges, Done done) const {
  if (target == kFiguresTarget) return share.read(target, std::move(ranges), std::move(done));
  const auto file = share.open_served(target);
  if (!file) return done(file.error());
  everywhere(*file, std::move(ranges), {.deadline_ns = {}, .stop = share.stop_.get_token()},
             std::move(done));
}

io::serve::Served Share::served() const {
  io::serve::Served served = server_->served();
  if (local_ == nullptr) return served;
  const io::serve::Served local = local_->server->served();
  served.requests += local.requests;
  served.refused += local.refused;
  served.bytes += local.bytes;
  return served;
}

ShareStats Share::stats() const {
  return {.store = store_->stats(),
          .hits = own_hits_.bytes(),
          .served_hits = served_hits_.bytes(),
          .origin_bytes = origin_bytes_,
          .ahead_bytes = ahead_bytes_,
          .handed_over_bytes = others_.handed_over_bytes(),
          .served = served(),
          .trouble = store_->trouble()};
}

io::PrefetchOutcome Share::prefetch(const std::string& target,
                                    const std::vector<WantedRange>& ranges) const {
  const auto name = named(target);
  const auto origin = name ? sources_.find(name->path) : nullptr;
  if (origin == nullptr) return io::PrefetchOutcome::kFull;
  const std::vector<WantedRange> missing = store_->missing(name->id, ranges);
  if (missing.empty()) return io::PrefetchOutcome::kKept;
  if (io::serve::bytes_of(missing) > kAheadBytes) return io::PrefetchOutcome::kFull;
  uint64_t room = 0;
  for (const WantedRange& range : missing) room += room_for(range.length);
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
