// This process's part of its job's cache. Each read goes to the member that owns the bytes; if that
// member cannot deliver them, they are read from the origin. One process of each machine holds the
// machine's share and serves it to the other members; when that process ends, another one takes
// over.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/crew.h"
#include "base/mutex.h"
#include "cache/dataset_origins.h"
#include "cache/figures.h"
#include "cache/members/machine_folder.h"
#include "cache/members/members.h"
#include "cache/members/roster.h"
#include "cache/peers/peers.h"
#include "cache/share.h"
#include "io/machine.h"
#include "io/secret.h"

namespace forebay::cache {

struct CacheOptions {
  // The machine's folder: its processes find each other here, and the disk tier lies below it. It
  // is created if missing; the last process to leave removes it if nothing else is in it.
  std::string folder;
  uint64_t disk_bytes_max = 0;
  // The memory tier: a folder in a tmpfs and its limit in bytes; 0: no memory tier. The names of
  // all such folders begin with `memory_prefix`; folders beside this one that killed processes left
  // are removed.
  std::string memory_folder = {};
  std::string memory_prefix = {};
  uint64_t memory_bytes_max = 0;
  // Keeps the disk tier at the end, for the next job that names the folder.
  bool stays = false;
  // The launcher's name for the job. Processes that the launcher starts again have the same name
  // and reuse what the earlier ones held. Empty: the job has no name.
  std::string job = {};
  // The address at which other machines reach this one. They need the job's secret, which may be
  // empty only if no other machine can reach the address.
  std::string address = "127.0.0.1";
  io::Secret secret = {};
  // The other machines, if they are listed in advance, running or not. Their lists then name this
  // machine by the id `id`, at the port `port`. Empty and 0: an id is generated, and any free port
  // is used.
  std::vector<Listed> listed = {};
  std::string id = {};
  uint16_t port = 0;
  // Serves all jobs of this machine: their processes read everything through this process.
  bool for_all_jobs = false;
};

struct CacheStats {
  bool serves = false;  // whether this process holds the machine's share
  size_t members = 0;   // machines that hold the cache together
  HeldStats store = {};
  TierBytes hits = {};         // bytes that this process read from its own share
  TierBytes served_hits = {};  // bytes that others read from that share
  PeerStats peers = {};        // what it received from other processes
  // Bytes read from the origin, including those read for others.
  uint64_t origin_bytes = 0;
  uint64_t ahead_bytes = 0;        // part of origin_bytes: prefetched
  uint64_t handed_over_bytes = 0;  // bytes of its share that other machines hold because it is full
  io::serve::Served served = {};
  std::string trouble = {};  // why less is kept than the options allow; empty: no trouble
};

// Any thread may call anything.
class Cache {
 public:
  // Serves the machine's share unless another process of this machine does. Errors: those of
  // creating the folders; kUnavailable if no port is free, or if the process that serves does not
  // announce itself in time.
  static Result<std::shared_ptr<Cache>> open(const CacheOptions& options);
  // All reads must have ended before.
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // This machine's member, for the others' lists.
  Member machine() const EXCLUDES(mutex_);
  // Sets the job's machines, as the launcher knows them; requires a secret. Before this call this
  // machine is the only member; afterwards the members detect by themselves which machines join and
  // leave.
  void join(std::vector<Member> members) EXCLUDES(mutex_);
  DatasetOrigins& sources() { return sources_; }

  using File = Share::File;
  using Ranges = Share::Ranges;
  using Done = Share::Done;
  // Keeps the disk tier at the end, like CacheOptions::stays.
  void stay() { stays_ = true; }
  // Same contract as ReadableFile::start(); the file must live until `done`. `anew`: the cached
  // bytes of these ranges are damaged.
  void read(const File& file, Ranges ranges, const io::ReadOptions& options, bool anew, Done done)
      EXCLUDES(mutex_);

  // Same contract as Prefetchable::prefetch().
  void prefetch(const CachedFile& file, const std::vector<WantedRange>& ranges,
                const io::ReadOptions& options, std::function<void(io::PrefetchOutcome)> done)
      EXCLUDES(mutex_);
  // The machines that hold the cache together, as far as this one knows, including itself.
  std::vector<Member> members() const EXCLUDES(mutex_);
  CacheStats stats() const EXCLUDES(mutex_);
  Figures figures() const EXCLUDES(mutex_);
  // Asks another machine for its figures. Calls `done` once, in another thread. Errors: kCorrupt
  // for malformed figures; those of Peers::read().
  void ask_figures(const Member& member, std::function<void(Result<Figures>)> done);

 private:
  using Members = std::shared_ptr<const std::vector<Member>>;

  explicit Cache(CacheOptions options) : options_(std::move(options)), stays_(options_.stays) {}
  Status begin();
  Status serve(const std::optional<Notice>& before, io::Found found) EXCLUDES(mutex_);
  Status find_server() EXCLUDES(mutex_);
  void watch() EXCLUDES(mutex_);
  Result<std::unique_ptr<Share>> open_share(io::Found found,
                                            std::unique_ptr<io::Datagrams>* datagrams);
  void follow(const Notice& notice) EXCLUDES(mutex_);
  void remove_what_nobody_serves() EXCLUDES(mutex_);
  std::string held_folder() const;
  // For a daemon: the processes of all jobs are served from the whole cache.
  void use_everywhere(ShareOptions& options);
  // Tells every holder of these bytes of the target that they are wrong.
  void forget(const std::string& target, const std::vector<WantedRange>& ranges) EXCLUDES(mutex_);
  // The members that own pieces at the moment, and this machine's part among them.
  struct Owners {
    Members members;
    std::string own;         // the id of this machine's member
    Share* share = nullptr;  // null if another process serves
  };
  Owners owners() const EXCLUDES(mutex_);
  std::vector<Member> others() const EXCLUDES(mutex_);
  void read_peer(const Member& member, const File& file, Ranges ranges,
                 const io::ReadOptions& options, Done done);
  void read_origin(const File& file, Ranges ranges, const io::ReadOptions& options, Done done);

  const CacheOptions options_;
  std::atomic<bool> stays_;
  const int64_t begin_ns_ = io::monotonic_ns();
  std::shared_ptr<const io::serve::JobCertificate> certificate_;  // null without a secret
  DatasetOrigins sources_;
  // Used by open(), then by the watcher, then by the roster, and by the destructor.
  std::unique_ptr<MachineFolder> folder_;
  std::atomic<uint64_t> origin_bytes_ = 0;
  std::unique_ptr<Peers> peers_;
  mutable base::Mutex mutex_;
  base::CondVar ends_;
  bool ended_ GUARDED_BY(mutex_) = false;
  Member machine_ GUARDED_BY(mutex_);
  // Never null: others may ask before this process knows its own member.
  Members members_ GUARDED_BY(mutex_) = std::make_shared<const std::vector<Member>>();
  size_t joined_ GUARDED_BY(mutex_) = 0;  // number of machines in the last join()
  int64_t joined_until_ns_ GUARDED_BY(mutex_) = 0;
  bool is_local_ GUARDED_BY(mutex_) = false;  // another process serves all jobs of this machine
  std::string trouble_ GUARDED_BY(mutex_);
  // Null while another process of this machine serves. Once set, it stays until the end.
  std::unique_ptr<Share> share_ GUARDED_BY(mutex_);
  std::unique_ptr<Roster> roster_ GUARDED_BY(mutex_);
  base::Crew watcher_;
};

}  // namespace forebay::cache
