// This process's part in its job's cache: what it reads comes from the member that owns it, and
// from the origin where that member does not have it or does not answer. One process of each
// machine holds the machine's share and serves it to the others.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/crew.h"
#include "base/mutex.h"
#include "base/queue.h"
#include "cache/file_name.h"
#include "cache/members.h"
#include "cache/peers.h"
#include "cache/store.h"
#include "io/file_system.h"
#include "io/secret.h"
#include "io/serve/range_server.h"

namespace forebay::cache {

struct CacheOptions {
  // The machine's: its processes find each other here, and what is on the disk lies below it. It is
  // made if need be, and removed at the end if nothing else is in it.
  std::string folder;
  uint64_t disk_bytes_max = 0;
  // A folder in memory (a tmpfs), and the bytes in it; 0: none. The names of all such folders
  // beside it begin with `memory_prefix`: those of processes that were killed are removed.
  std::string memory_folder = {};
  std::string memory_prefix = {};
  uint64_t memory_bytes_max = 0;
  // Where other machines reach this one. They need the job's secret, which may be empty only where
  // the address is this machine's alone.
  std::string address = "127.0.0.1";
  io::Secret secret = {};
};

struct CacheStats {
  bool serves = false;  // whether this process holds the machine's share
  size_t members = 0;   // machines that hold the cache together
  StoreStats store = {};
  TierBytes hits = {};   // what this process read from its own share
  PeerStats peers = {};  // what it had from other processes
  // What it had from the origin, also for others.
  uint64_t origin_bytes = 0;
  io::serve::Served served = {};
  std::string trouble = {};  // why less is kept than was asked for; empty while all is well
};

// A file that the cache may hold.
struct CachedFile {
  std::string target;  // encode_target() of its name
  FileId id{};
  std::shared_ptr<const io::ReadableFile> file;  // at the origin
  std::shared_ptr<const void> owner = {};        // what the file needs; null: its user cares
};

// Any thread may call anything.
class Cache final : private io::serve::ServedFiles {
 public:
  // Serves where no other process of this machine does. Errors: those of the folders; kUnavailable
  // where no port can be had.
  static Result<std::shared_ptr<Cache>> open(const CacheOptions& options);
  // Ends the serving. Whoever reads has ended before.
  ~Cache() override;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // This machine's member, for the others' lists.
  Member machine() const EXCLUDES(mutex_);
  // The job's members, which are the same everywhere. At first this machine is alone.
  void set_members(std::vector<Member> members) EXCLUDES(mutex_);

  // Files whose paths begin with `root`, or are `root` without its slash, may be read for other
  // members, from this origin.
  void add_source(const std::string& root, std::shared_ptr<const io::Origin> origin)
      EXCLUDES(mutex_);
  void remove_source(const std::string& root) EXCLUDES(mutex_);

  using Done = std::function<void(Status)>;
  // Like ReadableFile::start() of the file, which stays until `done`. `anew`: what is held of these
  // ranges is damaged.
  void read(const std::shared_ptr<const CachedFile>& file, std::vector<io::Range> ranges,
            const io::ReadOptions& options, bool anew, Done done) EXCLUDES(mutex_);

  CacheStats stats() const EXCLUDES(mutex_);

 private:
  using File = std::shared_ptr<const CachedFile>;
  using Ranges = std::vector<io::Range>;
  // What is being read from the origin for the machine's share, and who waits for the same bytes.
  struct Fetch {
    FileId file{};
    std::vector<std::pair<uint64_t, uint64_t>> spans;  // begin and end
    std::vector<std::function<void()>> waiters;
  };
  using Fetches = std::list<Fetch>;

  explicit Cache(CacheOptions options) : options_(std::move(options)) {}
  Status begin();
  Status serve(std::unique_ptr<io::FileLock> lock);
  Status find_server();
  std::map<size_t, Ranges> by_owner(const CachedFile& file, const Ranges& ranges,
                                    const std::vector<Member>& members) const;
  // For this process itself, or for others.
  enum class For : uint8_t { kItself, kOthers };
  void read_own(const File& file, Ranges ranges, const io::ReadOptions& options, For whom,
                Done done) EXCLUDES(mutex_);
  void count(For whom, const TierBytes& hits);
  void fetch(const File& file, Ranges ranges, const io::ReadOptions& options,
             Fetches::iterator fetch, Done done);
  void finish_fetch(Fetches::iterator fetch) EXCLUDES(mutex_);
  void read_peer(const Member& member, const File& file, Ranges ranges,
                 const io::ReadOptions& options, Done done);
  void read_origin(const File& file, Ranges ranges, const io::ReadOptions& options, Done done);
  // ServedFiles, for other members:
  std::optional<uint64_t> size(const std::string& target) const override EXCLUDES(mutex_);
  void read(const std::string& target, Ranges ranges, Done done) const override EXCLUDES(mutex_);
  Result<File> open_served(const std::string& target) const EXCLUDES(mutex_);
  std::shared_ptr<const io::Origin> source_of(const std::string& path) const EXCLUDES(mutex_);

  const CacheOptions options_;
  std::shared_ptr<const io::http::JobCertificate> certificate_;  // null without a secret
  std::unique_ptr<io::FileLock> lock_;                           // held by the process that serves
  std::unique_ptr<Store> store_;  // null where another process of this machine serves
  std::stop_source stop_;
  std::atomic<uint64_t> memory_hit_bytes_ = 0;
  std::atomic<uint64_t> disk_hit_bytes_ = 0;
  std::atomic<uint64_t> origin_bytes_ = 0;
  mutable base::Mutex mutex_;
  Member machine_ GUARDED_BY(mutex_);
  std::shared_ptr<const std::vector<Member>> members_ GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<const io::Origin>> sources_ GUARDED_BY(mutex_);
  Fetches fetches_ GUARDED_BY(mutex_);
  // What has come from an origin is kept, and handed on, by a thread of its own: that of the origin
  // must not wait for a disk, and must not be the one that ends the origin.
  base::Queue<std::function<void()>> jobs_{SIZE_MAX};
  base::Crew keepers_;
  std::unique_ptr<Peers> peers_;
  std::unique_ptr<io::serve::RangeServer> server_;
};

}  // namespace forebay::cache
