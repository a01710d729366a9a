// This process's part in its job's cache: what it reads comes from the member that owns it, and
// from the origin where that member does not have it or does not answer. One process of each
// machine holds the machine's share and serves it to the others; when it is gone, another one does.
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
  // The machine's: its processes find each other here, and what is on the disk lies below it. It is
  // made if need be, and removed by the last process that leaves it if nothing else is in it.
  std::string folder;
  uint64_t disk_bytes_max = 0;
  // A folder in memory (a tmpfs), and the bytes in it; 0: none. The names of all such folders
  // beside it begin with `memory_prefix`: those of processes that were killed are removed.
  std::string memory_folder = {};
  std::string memory_prefix = {};
  uint64_t memory_bytes_max = 0;
  // What is on the disk stays there at the end, for the next job that names the folder.
  bool stays = false;
  // The launcher's name of the job, which is the same when it starts the processes again: these go
  // on with what is there. Empty where it has none.
  std::string job = {};
  // Where other machines reach this one. They need the job's secret, which may be empty only where
  // the address is this machine's alone.
  std::string address = "127.0.0.1";
  io::Secret secret = {};
  // Machines that are known before, whether they are there or not. Then the others know this one
  // before, too: by the name `id`, at `port`. Empty: a name is made, and any port is taken.
  std::vector<Member> listed = {};
  std::string id = {};
  uint16_t port = 0;
  // Serves all jobs of this machine: their processes have everything through this one.
  bool for_all_jobs = false;
};

struct CacheStats {
  bool serves = false;  // whether this process holds the machine's share
  size_t members = 0;   // machines that hold the cache together
  HeldStats store = {};
  TierBytes hits = {};         // what this process read from its own share
  TierBytes served_hits = {};  // what others had from it
  PeerStats peers = {};        // what it had from other processes
  // What it had from the origin, also for others.
  uint64_t origin_bytes = 0;
  uint64_t ahead_bytes = 0;        // of origin_bytes: read before anybody needed them
  uint64_t handed_over_bytes = 0;  // of its share, which other machines hold because it is full
  io::serve::Served served = {};
  std::string trouble = {};  // why less is kept than was asked for; empty while all is well
};

// Any thread may call anything.
class Cache {
 public:
  // Serves where no other process of this machine does. Errors: those of the folders; kUnavailable
  // where no port can be had.
  static Result<std::shared_ptr<Cache>> open(const CacheOptions& options);
  // Whoever reads has ended before.
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // This machine's member, for the others' lists.
  Member machine() const EXCLUDES(mutex_);
  // The job's other machines, as the launcher knows them, where there is a secret. At first this
  // machine is alone; from then on the members find out by themselves who comes and goes.
  void join(std::vector<Member> members) EXCLUDES(mutex_);
  DatasetOrigins& sources() { return sources_; }

  using File = Share::File;
  using Ranges = Share::Ranges;
  using Done = Share::Done;
  // What is on the disk stays there at the end, as with CacheOptions::stays.
  void stay() { stays_ = true; }
  // Like ReadableFile::start() of the file, which stays until `done`. `anew`: what is held of these
  // ranges is damaged.
  void read(const File& file, Ranges ranges, const io::ReadOptions& options, bool anew, Done done)
      EXCLUDES(mutex_);

  // Like Prefetchable::prefetch() of the file.
  void prefetch(const CachedFile& file, const std::vector<WantedRange>& ranges,
                const io::ReadOptions& options, std::function<void(io::PrefetchOutcome)> done)
      EXCLUDES(mutex_);
  // The machines that hold the cache together, with this one, as it knows them.
  std::vector<Member> members() const EXCLUDES(mutex_);
  CacheStats stats() const EXCLUDES(mutex_);
  Figures figures() const EXCLUDES(mutex_);
  // Asks another machine for its figures. Calls `done` once, in another thread; errors: kCancelled
  // where the member is gone, kCorrupt, kUnavailable and others of its requests.
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
  // A daemon's: the processes of all jobs are served from the whole cache.
  void use_everywhere(ShareOptions& options);
  // Tells whoever holds these bytes of the target that they are wrong.
  void forget(const std::string& target, const std::vector<WantedRange>& ranges) EXCLUDES(mutex_);
  // Who owns what at the moment.
  struct Owners {
    Members members;
    std::string own;         // the id of this machine's member
    Share* share = nullptr;  // null where another process serves
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
  // Others may ask before this process knows itself.
  Members members_ GUARDED_BY(mutex_) = std::make_shared<const std::vector<Member>>();
  size_t joined_ GUARDED_BY(mutex_) = 0;  // machines, in the last join()
  int64_t joined_until_ns_ GUARDED_BY(mutex_) = 0;
  bool is_local_ GUARDED_BY(mutex_) = false;  // another process serves all jobs of this machine
  std::string trouble_ GUARDED_BY(mutex_);
  // Null where another process of this machine serves. Once it is there, it stays until the end.
  std::unique_ptr<Share> share_ GUARDED_BY(mutex_);
  std::unique_ptr<Roster> roster_ GUARDED_BY(mutex_);
  base::Crew watcher_;
};

}  // namespace forebay::cache
