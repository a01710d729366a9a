#include "cache/share.h"

#include <algorithm>

#include "base/limits.h"
#include "io/machine.h"

namespace forebay::cache {

using base::Code;
using base::fail;
using base::MutexLock;

namespace {

constexpr uint32_t kReaders = 8;
constexpr size_t kNames = 4096;

}  // namespace

Result<std::unique_ptr<Share>> Share::open(const ShareOptions& options, const Sources& sources) {
  std::unique_ptr<Share> share(new Share(sources, options.elsewhere, options.figures));
  ASSIGN_OR_RETURN(share->store_, Store::open(options.memory, options.disk, options.found));
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
  ASSIGN_OR_RETURN(server_, io::serve::RangeServer::start(options.server, *this));
  if (!options.everywhere) return {};
  auto local = std::make_unique<Local>(*this);
  local->everywhere = options.everywhere;
  ASSIGN_OR_RETURN(local->server,
                   io::serve::RangeServer::start({.wait_ns = options.server.wait_ns}, *local));
  local_ = std::move(local);
  return {};
}

Share::~Share() { end(); }

void Share::end() {
  stop_.request_stop();
  local_.reset();
  server_.reset();
  reads_.close();
  readers_.wait();
  jobs_.close();
  keepers_.wait();
}

void Share::read(const File& file, Ranges ranges, const io::ReadOptions& options, Done done) {
  read_for(For::kItself, file, std::move(ranges), options, std::move(done));
}

// Whoever wants bytes that are being fetched already waits for them, and looks again then.
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
      count(whom, hits);
      other.waiters.push_back([this, file, missing, options, whom, done] {
        read_for(whom, file, missing, options, done);
      });
      return;
    }
    own = fetches_.insert(fetches_.end(), Fetch{.file = file->id, .spans = {}, .waiters = {}});
    for (const io::Range& range : missing) {
      own->spans.emplace_back(range.offset, range.offset + range.out.size());
    }
  }
  // Another fetch may have ended since the share was looked at.
  missing = store_->read(file->id, missing, &hits);
  count(whom, hits);
  if (!missing.empty()) return fetch(file, std::move(missing), options, own, std::move(done));
  finish_fetch(own);
  done({});
}

void Share::count(For whom, const TierBytes& hits) const {
  Hits& counted = whom == For::kOthers ? served_hits_ : own_hits_;
  counted.memory += hits.memory;
  counted.disk += hits.disk;
}

void Share::fetch(const File& file, Ranges ranges, const io::ReadOptions& options,
                  Fetches::iterator fetch, Done done) {
  elsewhere_(*file, ranges, options,
             [this, file, ranges, options, fetch, done = std::move(done)](Ranges rest) {
               fetch_rest(file, ranges, std::move(rest), options, fetch, done);
             });
}

// Fetches what is left of the ranges from the origin, and keeps them all.
void Share::fetch_rest(const File& file, Ranges ranges, Ranges rest, const io::ReadOptions& options,
                       Fetches::iterator fetch, Done done) {
  const uint64_t bytes = io::bytes_of(rest);
  auto keep = [this, file, ranges = std::move(ranges), bytes, fetch,
               done = std::move(done)](const Status& status) {
    jobs_.push([this, file, ranges, bytes, fetch, done, status] {
      if (status.ok()) {
        origin_bytes_ += bytes;
        for (const io::Range& range : ranges) {
          store_->keep(file->id, range.offset, range.out, range.again);
        }
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

void Share::forget(const CachedFile& file, const Ranges& ranges) {
  for (const io::Range& range : ranges) store_->forget(file.id, range.offset, range.out.size());
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
  if (origin == nullptr) return fail(Code::kNotFound, "{}: not of this job", name.path);
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
}

// The answer is given by another thread than the origin's, which must not be the last to hold it.
void Share::read(const std::string& target, Ranges ranges, Done done) const {
  if (target == kFiguresTarget) {
    const std::string text = figures_();
    for (const io::Range& range : ranges) {
      std::copy_n(text.begin() + static_cast<ptrdiff_t>(range.offset), range.out.size(),
                  range.out.begin());
    }
    return done({});
  }
  auto file = open_served(target);
  if (!file) return done(file.error());
  auto* const self = const_cast<Share*>(this);
  self->read_for(For::kOthers, *file, std::move(ranges),
                 {.deadline_ns = {}, .stop = stop_.get_token()}, std::move(done));
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
          .served = served(),
          .trouble = store_->trouble()};
}

}  // namespace forebay::cache
