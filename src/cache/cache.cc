#include "cache/cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/limits.h"
#include "cache/peers/file_name.h"
#include "cache/peers/gather.h"
#include "cache/peers/pieces.h"
#include "io/clock.h"
#include "io/machine.h"
#include "io/scratch_files.h"
#include "io/secret_file.h"

namespace forebay::cache {

using base::Code;
using base::fail;
using base::MutexLock;

namespace {

constexpr int64_t kMs = 1'000'000;
// How long a process waits for the announcement of the process that serves its machine.
constexpr int64_t kServerNs = 5000 * kMs;
constexpr int64_t kLookNs = 20 * kMs;
// How often a process checks that the serving process still runs, and how long it waits after it
// failed to take over.
constexpr int64_t kWatchNs = 50 * kMs;
constexpr int64_t kAgainNs = 1000 * kMs;
constexpr int64_t kLeaveNs = 2 * kMs;
constexpr int kLeaveTries = 5;
constexpr int kPortTries = 10;
constexpr const char* kLoopback = "127.0.0.1";
// For so long after join() a notice with one machine only is taken for an outdated one.
constexpr int64_t kJoinNs = 1000 * kMs;
// In a job that begins, a member may be asked for files of a dataset that it is just opening.
constexpr int64_t kOpeningNs = 1000 * kMs;

std::string new_id(const CacheOptions& options, uint16_t port) {
  if (!options.id.empty()) return options.id;
  const std::string text =
      fmt::format("{} {} {} {}", options.folder, options.address, port, io::wall_ns());
  return base::to_hex(base::sha256(base::as_bytes(text))).substr(0, 16);
}

// What one request asks a member for.
struct Question {
  size_t owner = 0;
  std::vector<WantedRange> ranges;
};

std::vector<Question> questions_for(const FileId& file, const std::vector<WantedRange>& ranges,
                                    const std::vector<Member>& members) {
  std::vector<Question> questions;
  for (const auto& [owner, part] : by_owner(file, ranges, members)) {
    for (size_t i = 0; i < part.size(); ++i) {
      if (i % base::kHttpRangesMax == 0) questions.push_back({owner, {}});
      questions.back().ranges.push_back(part[i]);
    }
  }
  return questions;
}

// A listed machine has no incarnation until it has been heard from.
bool is_there(const Member& member) { return member.incarnation > 0; }

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
    ASSIGN_OR_RETURN(auto made, io::serve::make_job_certificate(options_.secret));
    certificate_ = std::make_shared<const io::serve::JobCertificate>(std::move(made));
  }
  peers_ = std::make_unique<Peers>(certificate_);
  ASSIGN_OR_RETURN(folder_, MachineFolder::open(options_.folder));
  RETURN_IF_ERROR(find_server());
  watcher_.start(1, [this](uint32_t) { watch(); });
  return {};
}

// Serves unless another process does. The notice in the folder may be a dead process's.
Status Cache::find_server() {
  const int64_t deadline_ns = io::monotonic_ns() + kServerNs;
  base::CondVar never;
  while (true) {
    ASSIGN_OR_RETURN(const bool is_ours, folder_->claim());
    if (is_ours) {
      auto notice = folder_->read();
      const bool is_same_job = notice && !options_.job.empty() && notice->job == options_.job;
      const bool is_used = options_.stays || is_same_job;
      if (!is_used) return serve(std::nullopt, io::Found::kRemove);
      // The machines of that time may be gone; the present ones announce themselves.
      if (notice) notice->members.clear();
      return serve(notice, io::Found::kUse);
    }
    if (const auto notice = folder_->read_served()) {
      follow(*notice);
      return {};
    }
    const int64_t now_ns = io::monotonic_ns();
    if (now_ns > deadline_ns) {
      return fail(
          Code::kUnavailable,
          "{}: another process holds this folder, but did not announce within {} s where it "
          "serves it",
          options_.folder, kServerNs / 1'000'000'000);
    }
    MutexLock lock(mutex_);
    io::monotonic_clock().wait_until(mutex_, never, now_ns + kLookNs);
  }
}

// Opens the share, and the datagrams' socket at the same port. Without a secret there is no such
// socket: any user of this machine could add members through it, which could send wrong bytes.
Result<std::unique_ptr<Share>> Cache::open_share(io::Found found,
                                                 std::unique_ptr<io::Datagrams>* datagrams) {
  io::Secret local_secret;
  if (options_.secret.empty() || options_.for_all_jobs) {
    ASSIGN_OR_RETURN(local_secret, io::new_secret());
  }
  for (int tries = kPortTries; true; --tries) {
    if (!options_.secret.empty()) {
      ASSIGN_OR_RETURN(*datagrams,
                       io::Datagrams::open(options_.address, options_.port, options_.secret));
    }
    ShareOptions options{
        .memory = {options_.memory_folder, options_.memory_bytes_max},
        .disk = {held_folder(), options_.disk_bytes_max},
        .found = found,
        .server = {.address = options_.address,
                   .port = *datagrams == nullptr ? uint16_t{0} : (*datagrams)->port(),
                   .job = certificate_,
                   .wait_ns = kOpeningNs},
        .local_secret = local_secret,
        .others = [this] { return others(); },
        .figures = [this] { return padded_figures(figures()); }};
    if (options_.for_all_jobs) use_everywhere(options);
    auto share = Share::open(options, sources_, *peers_);
    if (share || tries == 1 || share.error().code() != Code::kUnavailable) return share;
  }
}

// `before`: the notice of the process that served before, if this one takes its place.
Status Cache::serve(const std::optional<Notice>& before, io::Found found) {
  // The notice of a killed process must not mislead others. Only its successor needs it.
  if (!before) folder_->remove_notice();
  if (options_.memory_bytes_max > 0 && found == io::Found::kRemove) {
    io::ScratchFiles::remove_abandoned(io::parent_path(options_.memory_folder),
                                       options_.memory_prefix);
  }
  std::unique_ptr<io::Datagrams> datagrams;
  ASSIGN_OR_RETURN(auto share, open_share(found, &datagrams));
  const uint64_t incarnation = before ? before->machine.incarnation + 1 : 1;
  const bool goes_on = before && options_.id.empty();
  const Member self{.id = goes_on ? before->machine.id : new_id(options_, share->port()),
                    .host = options_.address,
                    .port = share->port(),
                    .room_bytes = options_.disk_bytes_max + options_.memory_bytes_max,
                    .incarnation = std::max(incarnation, static_cast<uint64_t>(io::wall_ns()))};
  Notice notice{.machine = self,
                .members = {self},
                .job = options_.job,
                .local_port = share->local_port(),
                .local_secret = share->local_secret()};
  std::unique_ptr<Roster> roster;
  if (datagrams != nullptr) {
    auto opened =
        Roster::open(self, std::move(datagrams), options_.listed,
                     [this, notice](const Member& own, std::vector<Member> members) mutable {
                       notice.machine = own;
                       notice.members = std::move(members);
                       static_cast<void>(folder_->write(notice));
                       follow(notice);
                     });
    if (!opened) {
      share->stay();
      return opened.error();
    }
    roster = std::move(*opened);
  }
  RETURN_IF_ERROR(folder_->write(notice));
  {
    MutexLock lock(mutex_);
    is_local_ = false;
    share_ = std::move(share);
    machine_ = self;
    members_ = std::make_shared<const std::vector<Member>>(1, self);
  }
  if (roster == nullptr) return {};
  roster->start();
  roster->add(before ? before->members : std::vector<Member>());
  MutexLock lock(mutex_);
  roster_ = std::move(roster);
  return {};
}

void Cache::follow(const Notice& notice) {
  MutexLock lock(mutex_);
  // A notice that the serving process wrote before join().
  const bool is_old = share_ == nullptr && notice.members.size() < 2 && joined_ > 1 &&
                      io::monotonic_ns() < joined_until_ns_;
  if (is_old) return;
  machine_ = notice.machine;
  std::vector<Member> members = notice.members;
  is_local_ = share_ == nullptr && notice.local_port != 0;
  if (is_local_) {
    machine_.host = kLoopback;
    machine_.port = notice.local_port;
    members = {machine_};
  }
  if (share_ != nullptr) share_->note_members(members);
  const bool is_plain = is_local_ || certificate_ == nullptr;
  peers_->keep_only(members, is_local_, is_plain ? notice.local_secret : io::Secret());
  members_ = std::make_shared<const std::vector<Member>>(std::move(members));
}

void Cache::watch() {
  io::work_in_background();
  while (true) {
    int64_t wait_ns = kWatchNs;
    {
      MutexLock lock(mutex_);
      if (ended_ || share_ != nullptr) return;
    }
    const auto is_ours = folder_->claim();
    if (is_ours && *is_ours) {
      const Status status = serve(folder_->read(), io::Found::kUse);
      if (status.ok()) return;
      folder_->give_up_claim();
      wait_ns = kAgainNs;
      MutexLock lock(mutex_);
      trouble_ = status.message();
    } else if (folder_->has_changed()) {
      if (const auto notice = folder_->read_served()) follow(*notice);
    }
    const int64_t until_ns = io::monotonic_ns() + wait_ns;
    MutexLock lock(mutex_);
    while (!ended_ && io::monotonic_clock().wait_until(mutex_, ends_, until_ns)) continue;
  }
}

Cache::~Cache() {
  {
    MutexLock lock(mutex_);
    ended_ = true;
    ends_.notify_all();
  }
  watcher_.wait();
  if (folder_ == nullptr) return;
  folder_->leave();
  std::unique_ptr<Share> share;
  std::unique_ptr<Roster> roster;
  {
    MutexLock lock(mutex_);
    share = std::move(share_);
    roster = std::move(roster_);
  }
  if (roster != nullptr && !folder_->has_others()) roster->leave();
  roster.reset();
  if (share == nullptr) {
    remove_what_nobody_serves();
    return;
  }
  share->end();
  peers_.reset();
  if (folder_->has_others()) {
    share->stay();  // one of them takes over the held ranges
  } else if (stays_) {
    share->stay_on_disk();
  } else {
    folder_->remove_notice();
  }
}

// The serving process may have ended while this one was still present, and left its files to it.
void Cache::remove_what_nobody_serves() {
  base::CondVar never;
  for (int i = 0; i < kLeaveTries; ++i) {
    const auto is_ours = folder_->claim();
    if (is_ours && *is_ours) {
      if (folder_->has_others()) return;
      if (!options_.memory_folder.empty()) {
        static_cast<void>(io::ScratchFiles::open(options_.memory_folder, io::Found::kRemove));
      }
      if (stays_) return;
      static_cast<void>(io::ScratchFiles::open(held_folder(), io::Found::kRemove));
      return folder_->remove_notice();
    }
    // Another process may be just leaving.
    MutexLock lock(mutex_);
    io::monotonic_clock().wait_until(mutex_, never, io::monotonic_ns() + kLeaveNs);
  }
}

std::string Cache::held_folder() const { return io::join_path(options_.folder, "held"); }

Member Cache::machine() const {
  MutexLock lock(mutex_);
  return machine_;
}

void Cache::join(std::vector<Member> members) {
  FOREBAY_CHECK(!options_.secret.empty());
  MutexLock lock(mutex_);
  if (roster_ != nullptr) roster_->add(members);
  if (is_local_) return;  // everything comes through one process, whatever the machines are
  // The serving process joins them too, and from then on its notices list the members.
  joined_ = members.size();
  joined_until_ns_ = io::monotonic_ns() + kJoinNs;
  members_ = std::make_shared<const std::vector<Member>>(std::move(members));
}

Cache::Owners Cache::owners() const {
  MutexLock lock(mutex_);
  return {members_, machine_.id, share_.get()};
}

void Cache::read(const File& file, Ranges ranges, const io::ReadOptions& options, bool anew,
                 Done done) {
  std::erase_if(ranges, [](const io::Range& range) { return range.out.empty(); });
  if (ranges.empty()) return done({});
  const io::Range& last = ranges.back();
  const auto [members, own, share] = owners();
  if (anew) {
    std::vector<WantedRange> wrong;
    for (const io::Range& range : ranges) wrong.push_back({range.offset, range.out.size()});
    forget(file->target, wrong);
  }
  // The origin reports the error of ranges outside of the file.
  if (!base::in_bounds(last.offset, last.out.size(), file->file->identity().size)) {
    return read_origin(file, std::move(ranges), options, std::move(done));
  }
  auto parts = by_owner(file->id, ranges, *members);
  const auto gather = std::make_shared<ReadGather>(
      parts.size(),
      [done = std::move(done)](Status status, const Ranges&) { done(std::move(status)); });
  const auto finish = [gather](const Status& status) { gather->finish(status); };
  for (auto& [owner, part] : parts) {
    const Member* const member = owner < members->size() ? &(*members)[owner] : nullptr;
    if (member == nullptr) {
      read_origin(file, std::move(part), options, finish);
    } else if (share != nullptr && member->id == own) {
      share->read(file, std::move(part), options, anew, finish);
    } else if (anew || !peers_->may_ask(*member)) {
      read_origin(file, std::move(part), options, finish);
    } else {
      read_peer(*member, file, std::move(part), options, finish);
    }
  }
}

// Members that must not be asked at the moment are not told.
void Cache::forget(const std::string& target, const std::vector<WantedRange>& ranges) {
  const auto [members, own, share] = owners();
  if (share != nullptr) share->forget(target, ranges);
  const auto name = decode_target(target);
  if (!name) return;
  for (const auto& [owner, part] :
       by_owner(base::sha256(base::as_bytes(target)), ranges, *members)) {
    if (owner >= members->size()) continue;
    const Member& member = (*members)[owner];
    const bool is_here = share != nullptr && member.id == own;
    if (is_here || !peers_->may_ask(member)) continue;
    peers_->report_wrong(member, target, name->identity.size, part);
  }
}

std::vector<Member> Cache::others() const {
  MutexLock lock(mutex_);
  std::vector<Member> others;
  for (const Member& member : *members_) {
    if (member.id != machine_.id && peers_->may_ask(member)) others.push_back(member);
  }
  return others;
}

void Cache::use_everywhere(ShareOptions& options) {
  options.everywhere = [this](const File& file, Ranges ranges, const io::ReadOptions& how,
                              Done done) {
    read(file, std::move(ranges), how, false, std::move(done));
  };
  options.forget_everywhere = [this](const std::string& target,
                                     const std::vector<WantedRange>& ranges) {
    forget(target, ranges);
  };
}

void Cache::read_peer(const Member& member, const File& file, Ranges ranges,
                      const io::ReadOptions& options, Done done) {
  peers_->read(member, Peers::What::kAll, file->target, file->file->identity().size,
               std::move(ranges), options,
               [this, file, options, done = std::move(done)](const Status& status, Ranges rest) {
                 if (rest.empty()) return done({});
                 if (status.code() == Code::kCancelled) return done(status);
                 read_origin(file, std::move(rest), options, done);
               });
}

void Cache::read_origin(const File& file, Ranges ranges, const io::ReadOptions& options,
                        Done done) {
  const uint64_t bytes = io::bytes_of(ranges);
  const io::ReadableFile& origin = *file->file;
  origin.start(
      io::joined(std::move(ranges)), options,
      [this, file, bytes, begin_ns = io::monotonic_ns(), done = std::move(done)](Status status) {
        if (status.ok()) {
          origin_bytes_ += bytes;
          peers_->note_origin(bytes, begin_ns);
        }
        done(std::move(status));
      });
}

void Cache::prefetch(const CachedFile& file, const std::vector<WantedRange>& ranges,
                     const io::ReadOptions& options,
                     std::function<void(io::PrefetchOutcome)> done) {
  const auto [members, own, share] = owners();
  const auto questions = questions_for(file.id, ranges, *members);
  if (questions.empty()) return done(io::PrefetchOutcome::kKept);
  // The answer that is last in the order of the enum counts for all.
  const auto answers = std::make_shared<Gather<io::PrefetchOutcome>>(
      questions.size(), io::PrefetchOutcome::kKept, std::move(done));
  const auto add = [answers](io::PrefetchOutcome answer) {
    answers->finish([answer](io::PrefetchOutcome& last) { last = std::max(last, answer); });
  };
  for (const auto& [owner, part] : questions) {
    const Member* const member = owner < members->size() ? &(*members)[owner] : nullptr;
    if (share != nullptr && member != nullptr && member->id == own) {
      add(share->prefetch(file.target, part));
    } else if (member == nullptr || !peers_->may_ask(*member)) {
      add(io::PrefetchOutcome::kFull);
    } else {
      peers_->prefetch(*member, file.target, part, options, add);
    }
  }
}

CacheStats Cache::stats() const {
  CacheStats stats{.peers = peers_->stats(), .origin_bytes = origin_bytes_};
  MutexLock lock(mutex_);
  stats.members = static_cast<size_t>(std::ranges::count_if(*members_, is_there));
  stats.trouble = trouble_;
  if (share_ == nullptr) return stats;
  const ShareStats own = share_->stats();
  stats.serves = true;
  stats.store = own.store;
  stats.hits = own.hits;
  stats.served_hits = own.served_hits;
  stats.ahead_bytes = own.ahead_bytes;
  stats.handed_over_bytes = own.handed_over_bytes;
  stats.origin_bytes += own.origin_bytes;
  stats.served = own.served;
  stats.trouble = own.trouble;
  if (stats.trouble.empty() && !options_.listed.empty() && stats.members == 1) {
    stats.trouble =
        fmt::format("none of the {} other machines of the list answers", options_.listed.size());
  }
  if (roster_ != nullptr && roster_->is_replaced()) {
    stats.trouble = fmt::format(
        "{}: another process serves the same share, so this one is no member", options_.folder);
  }
  return stats;
}

Figures Cache::figures() const {
  const CacheStats stats = this->stats();
  const Member machine = this->machine();
  return {.machine = io::machine_name(),
          .address = place_of(machine.host, machine.port),
          .folder = options_.folder,
          .datasets = sources_.roots(),
          .trouble = stats.trouble,
          .uptime_ms = static_cast<uint64_t>(io::monotonic_ns() - begin_ns_) / 1'000'000,
          .members = stats.members,
          .serves = stats.serves ? 1u : 0u,
          .memory_bytes_max = options_.memory_bytes_max,
          .disk_bytes_max = options_.disk_bytes_max,
          .memory_held_bytes = stats.store.held.memory,
          .disk_held_bytes = stats.store.held.disk,
          .found_bytes = stats.store.found_bytes,
          .memory_hit_bytes = stats.hits.memory + stats.served_hits.memory,
          .disk_hit_bytes = stats.hits.disk + stats.served_hits.disk,
          .peer_hit_bytes = stats.peers.hit_bytes,
          .origin_bytes = stats.origin_bytes,
          .served_requests = stats.served.requests,
          .served_bytes = stats.served.bytes,
          .refused_requests = stats.served.refused,
          .peer_requests = stats.peers.requests,
          .peer_failures = stats.peers.failures,
          .damaged = stats.store.damaged,
          .refused_bytes = stats.store.refused_bytes,
          .dropped_bytes = stats.store.dropped_bytes};
}

void Cache::ask_figures(const Member& member, std::function<void(Result<Figures>)> done) {
  const auto text = std::make_shared<std::string>(base::kFiguresBytesMax, ' ');
  auto* const bytes = reinterpret_cast<uint8_t*>(text->data());
  peers_->read(member, Peers::What::kAll, std::string(kFiguresTarget), text->size(),
               {{0, {bytes, text->size()}}}, {},
               [text, done = std::move(done)](const Status& status, const Ranges& rest) {
                 if (rest.empty()) return done(decode_figures(*text));
                 done(tl::unexpected(status));
               });
}

std::vector<Member> Cache::members() const {
  MutexLock lock(mutex_);
  std::vector<Member> members;
  std::ranges::copy_if(*members_, std::back_inserter(members), is_there);
  return members;
}

}  // namespace forebay::cache
