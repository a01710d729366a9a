#include "cache/cache.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/limits.h"
#include "io/clock.h"
#include "io/machine.h"
#include "io/scratch_files.h"

namespace forebay::cache {

using base::Code;
using base::fail;
using base::MutexLock;

namespace {

constexpr int64_t kMs = 1'000'000;
// How long a process waits for the one that has begun to serve its machine.
constexpr int64_t kServerNs = 5000 * kMs;
constexpr int64_t kLookNs = 20 * kMs;
constexpr uint64_t kServerFileBytes = 4096;

// Calls `done` once, when all parts of a read are done, with the first error.
class Joint {
 public:
  Joint(size_t parts, Cache::Done done) : left_(parts), done_(std::move(done)) {}
  void finish(Status status) {
    {
      MutexLock lock(mutex_);
      if (first_.ok()) first_ = std::move(status);
      if (--left_ > 0) return;
      status = first_;
    }
    done_(std::move(status));
  }

 private:
  base::Mutex mutex_;
  size_t left_ GUARDED_BY(mutex_);
  Status first_ GUARDED_BY(mutex_);
  const Cache::Done done_;
};

uint64_t bytes_of(const std::vector<io::Range>& ranges) {
  uint64_t bytes = 0;
  for (const io::Range& range : ranges) bytes += range.out.size();
  return bytes;
}

bool is_below(const std::string& path, const std::string& root) {
  return path.starts_with(root) || path + "/" == root;
}

std::string encode_member(const Member& member) {
  return nlohmann::json{{"id", member.id},
                        {"host", member.host},
                        {"port", member.port},
                        {"room_bytes", member.room_bytes}}
      .dump();
}

std::optional<Member> decode_member(Bytes text) {
  const auto found = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  if (!found.is_object()) return std::nullopt;
  try {
    return Member{.id = found.at("id"),
                  .host = found.at("host"),
                  .port = found.at("port"),
                  .room_bytes = found.at("room_bytes")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

Result<std::shared_ptr<Cache>> Cache::open(const CacheOptions& options) {
  const int64_t process = io::process_id();
  // A forked process has none of the threads, so it leaves its copy alone.
  const std::shared_ptr<Cache> cache(new Cache(options), [process](Cache* own) {
    if (io::process_id() == process) delete own;
  });
  RETURN_IF_ERROR(cache->begin().at("cache"));
  return cache;
}

Status Cache::begin() {
  if (!options_.secret.empty()) {
    ASSIGN_OR_RETURN(auto made, io::http::make_job_certificate(options_.secret));
    certificate_ = std::make_shared<const io::http::JobCertificate>(std::move(made));
  }
  peers_ = std::make_unique<Peers>(certificate_);
  keepers_.start(1, [this](uint32_t) {
    io::work_in_background();
    while (const auto job = jobs_.pop()) (*job)();
  });
  RETURN_IF_ERROR(io::make_private_folder(options_.folder));
  auto lock = io::posix_file_system().lock(io::join_path(options_.folder, "lock"));
  if (lock) return serve(std::move(*lock));
  if (lock.error().code() != Code::kBusy) return lock.error();
  return find_server();
}

Status Cache::serve(std::unique_ptr<io::FileLock> lock) {
  lock_ = std::move(lock);
  // What a process that was killed left must mislead nobody.
  static_cast<void>(io::posix_file_system().remove(io::join_path(options_.folder, "server")));
  if (options_.memory_bytes_max > 0) {
    io::ScratchFiles::remove_abandoned(io::parent_path(options_.memory_folder),
                                       options_.memory_prefix);
  }
  ASSIGN_OR_RETURN(store_,
                   Store::open({options_.memory_folder, options_.memory_bytes_max},
                               {io::join_path(options_.folder, "held"), options_.disk_bytes_max}));
  ASSIGN_OR_RETURN(server_, io::serve::RangeServer::start(
                                {.address = options_.address, .job = certificate_}, *this));
  MutexLock guard(mutex_);
  machine_ = {.id = base::to_hex(base::sha256(base::as_bytes(
                                     fmt::format("{} {} {} {}", options_.folder, options_.address,
                                                 server_->port(), io::wall_ns()))))
                        .substr(0, 16),
              .host = options_.address,
              .port = server_->port(),
              .room_bytes = options_.disk_bytes_max + options_.memory_bytes_max};
  members_ = std::make_shared<const std::vector<Member>>(1, machine_);
  const std::string text = encode_member(machine_);
  return io::posix_file_system().put(io::join_path(options_.folder, "server"), base::as_bytes(text),
                                     {.durable = false});
}

// What stands there may be that of a process which was killed: then nobody answers at that port.
Status Cache::find_server() {
  const std::string path = io::join_path(options_.folder, "server");
  const int64_t deadline_ns = io::monotonic_ns() + kServerNs;
  base::CondVar never;
  MutexLock lock(mutex_);
  while (true) {
    const auto text = io::posix_file_system().read_whole(path, kServerFileBytes);
    const auto member = text ? decode_member(*text) : std::nullopt;
    if (member) {
      machine_ = *member;
      members_ = std::make_shared<const std::vector<Member>>(1, machine_);
      return {};
    }
    const int64_t now_ns = io::monotonic_ns();
    if (now_ns > deadline_ns) {
      return fail(Code::kUnavailable,
                  "{}: another process holds this folder, and has not said within {} s where it "
                  "serves it",
                  options_.folder, kServerNs / 1'000'000'000);
    }
    io::monotonic_clock().wait_until(mutex_, never, now_ns + kLookNs);
  }
}

Cache::~Cache() {
  stop_.request_stop();
  server_.reset();
  peers_.reset();
  jobs_.close();
  keepers_.wait();
  if (store_ == nullptr) return;
  store_.reset();
  // Nothing is left, unless others put something there. The lock goes last.
  io::FileSystem& disk = io::posix_file_system();
  for (const char* const name : {"server", "lock"}) {
    static_cast<void>(disk.remove(io::join_path(options_.folder, name)));
  }
  static_cast<void>(disk.remove(options_.folder));
}

Member Cache::machine() const {
  MutexLock lock(mutex_);
  return machine_;
}

void Cache::set_members(std::vector<Member> members) {
  auto shared = std::make_shared<const std::vector<Member>>(std::move(members));
  MutexLock lock(mutex_);
  members_ = std::move(shared);
}

void Cache::add_source(const std::string& root, std::shared_ptr<const io::Origin> origin) {
  MutexLock lock(mutex_);
  sources_[root] = std::move(origin);
}

void Cache::remove_source(const std::string& root) {
  std::shared_ptr<const io::Origin> last;  // ends without the lock
  MutexLock lock(mutex_);
  const auto found = sources_.find(root);
  if (found == sources_.end()) return;
  last = std::move(found->second);
  sources_.erase(found);
}

// The ranges by the number of the member that owns them; parts that go on at the next piece with
// the same owner stay together.
std::map<size_t, Cache::Ranges> Cache::by_owner(const CachedFile& file, const Ranges& ranges,
                                                const std::vector<Member>& members) const {
  std::map<size_t, Ranges> parts;
  uint64_t known = UINT64_MAX;  // the piece whose owner is known
  size_t owner = SIZE_MAX;
  for (io::Range range : ranges) {
    size_t before = SIZE_MAX;
    bool goes_on = false;
    while (!range.out.empty()) {
      const uint64_t piece = range.offset / kPieceBytes;
      if (std::exchange(known, piece) != piece) owner = owner_of(file.id, piece, members);
      const auto step = static_cast<size_t>(
          std::min<uint64_t>(range.out.size(), (piece + 1) * kPieceBytes - range.offset));
      Ranges& part = parts[owner];
      if (goes_on && before == owner) {
        io::Range& last = part.back();
        last.out = {last.out.data(), last.out.size() + step};
      } else {
        part.push_back({range.offset, range.out.first(step)});
      }
      range = {range.offset + step, range.out.subspan(step)};
      goes_on = true;
      before = owner;
    }
  }
  return parts;
}

void Cache::read(const File& file, Ranges ranges, const io::ReadOptions& options, bool anew,
                 Done done) {
  std::erase_if(ranges, [](const io::Range& range) { return range.out.empty(); });
  if (ranges.empty()) return done({});
  const io::Range& last = ranges.back();
  // The origin says what is wrong with ranges outside of the file.
  const bool is_inside = base::in_bounds(last.offset, last.out.size(), file->file->identity().size);
  if (anew && store_ != nullptr) {
    for (const io::Range& range : ranges) store_->forget(file->id, range.offset, range.out.size());
  }
  std::shared_ptr<const std::vector<Member>> members;
  std::string own;
  {
    MutexLock lock(mutex_);
    members = members_;
    own = machine_.id;
  }
  if (!is_inside) return read_origin(file, std::move(ranges), options, std::move(done));
  auto parts = by_owner(*file, ranges, *members);
  const auto joint = std::make_shared<Joint>(parts.size(), std::move(done));
  const auto finish = [joint](Status status) { joint->finish(std::move(status)); };
  for (auto& [owner, part] : parts) {
    const Member* const member = owner < members->size() ? &(*members)[owner] : nullptr;
    if (member == nullptr) {
      read_origin(file, std::move(part), options, finish);
    } else if (store_ != nullptr && member->id == own) {
      read_own(file, std::move(part), options, For::kItself, finish);
    } else if (anew || !peers_->may_ask(*member)) {
      read_origin(file, std::move(part), options, finish);
    } else {
      read_peer(*member, file, std::move(part), options, finish);
    }
  }
}

// Whoever wants bytes that are being fetched already waits for them, and looks again then.
void Cache::read_own(const File& file, Ranges ranges, const io::ReadOptions& options, For whom,
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
        read_own(file, missing, options, whom, done);
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

void Cache::count(For whom, const TierBytes& hits) {
  if (whom == For::kOthers) return;
  memory_hit_bytes_ += hits.memory;
  disk_hit_bytes_ += hits.disk;
}

void Cache::fetch(const File& file, Ranges ranges, const io::ReadOptions& options,
                  Fetches::iterator fetch, Done done) {
  const io::ReadableFile& origin = *file->file;
  origin.start(ranges, options, [this, file, ranges, fetch, done = std::move(done)](Status status) {
    jobs_.push([this, file, ranges, fetch, done, status = std::move(status)] {
      if (status.ok()) {
        origin_bytes_ += bytes_of(ranges);
        for (const io::Range& range : ranges) store_->keep(file->id, range.offset, range.out);
      }
      finish_fetch(fetch);
      done(status);
    });
  });
}

void Cache::finish_fetch(Fetches::iterator fetch) {
  std::vector<std::function<void()>> waiters;
  {
    MutexLock lock(mutex_);
    waiters = std::move(fetch->waiters);
    fetches_.erase(fetch);
  }
  for (auto& waiter : waiters) jobs_.push(std::move(waiter));
}

void Cache::read_peer(const Member& member, const File& file, Ranges ranges,
                      const io::ReadOptions& options, Done done) {
  peers_->read(member, file->target, file->file->identity().size, std::move(ranges), options,
               [this, file, options, done = std::move(done)](const Status& status, Ranges rest) {
                 if (rest.empty()) return done({});
                 if (status.code() == Code::kCancelled) return done(status);
                 read_origin(file, std::move(rest), options, done);
               });
}

void Cache::read_origin(const File& file, Ranges ranges, const io::ReadOptions& options,
                        Done done) {
  const uint64_t bytes = bytes_of(ranges);
  const io::ReadableFile& origin = *file->file;
  origin.start(std::move(ranges), options,
               [this, file, bytes, done = std::move(done)](Status status) {
                 if (status.ok()) origin_bytes_ += bytes;
                 done(std::move(status));
               });
}

std::shared_ptr<const io::Origin> Cache::source_of(const std::string& path) const {
  // A server on the way could understand such a path as another one.
  if (path.find("/.") != std::string::npos) return nullptr;
  MutexLock lock(mutex_);
  for (const auto& [root, origin] : sources_) {
    if (is_below(path, root)) return origin;
  }
  return nullptr;
}

std::optional<uint64_t> Cache::size(const std::string& target) const {
  const auto name = decode_target(target);
  if (!name || source_of(name->path) == nullptr) return std::nullopt;
  return name->identity.size;
}

Result<Cache::File> Cache::open_served(const std::string& target) const {
  ASSIGN_OR_RETURN(const FileName name, decode_target(target));
  auto origin = source_of(name.path);
  if (origin == nullptr) return fail(Code::kNotFound, "{}: not of this job", name.path);
  ASSIGN_OR_RETURN(auto opened, origin->open(name.path, {.known = name.identity}));
  return std::make_shared<const CachedFile>(CachedFile{.target = target,
                                                       .id = base::sha256(base::as_bytes(target)),
                                                       .file = std::move(opened),
                                                       .owner = std::move(origin)});
}

// The answer is given by another thread than the origin's, which must not be the last to hold it.
void Cache::read(const std::string& target, Ranges ranges, Done done) const {
  auto file = open_served(target);
  if (!file) return done(file.error());
  auto* const self = const_cast<Cache*>(this);
  self->read_own(*file, std::move(ranges), {.deadline_ns = {}, .stop = stop_.get_token()},
                 For::kOthers, std::move(done));
}

CacheStats Cache::stats() const {
  CacheStats stats{.serves = store_ != nullptr, .peers = peers_->stats()};
  stats.hits = {.memory = memory_hit_bytes_, .disk = disk_hit_bytes_};
  stats.origin_bytes = origin_bytes_;
  if (store_ != nullptr) {
    stats.store = store_->stats();
    stats.trouble = store_->trouble();
    stats.served = server_->served();
  }
  MutexLock lock(mutex_);
  stats.members = members_->size();
  return stats;
}

}  // namespace forebay::cache
