// A machine's share of its job's cache, in the process that serves it: the held ranges, the fetches
// from the origin that fill them, and the server that sends them to the other members.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/crew.h"
#include "base/mutex.h"
#include "base/queue.h"
#include "cache/dataset_origins.h"
#include "cache/held/held_ranges.h"
#include "cache/peers/cached_file.h"
#include "cache/peers/others.h"
#include "io/serve/range_server.h"

namespace forebay::cache {

// The target of a request for the figures of the process that serves (figures.h); it names no file.
inline constexpr std::string_view kFiguresTarget = "/figures";

struct ShareOptions {
  TierOptions memory;
  TierOptions disk;
  io::Found found = io::Found::kRemove;  // whether to use what an earlier process held
  io::serve::RangeServerOptions server;
  // What this machine's processes must have to be served without TLS; it stands in the notice.
  io::Secret local_secret = {};
  std::function<std::vector<Member>()> others;  // the other members that may be asked
  // Reads from the whole cache. If it is set, this machine's processes, also those of other jobs,
  // are served in this way, over loopback and without TLS.
  std::function<void(const std::shared_ptr<const CachedFile>& file, std::vector<io::Range> ranges,
                     const io::ReadOptions& options, std::function<void(Status)> done)>
      everywhere = {};
  // Set together with `everywhere`: makes all members that hold these bytes of the target forget
  // them, because they turned out to be wrong.
  std::function<void(const std::string& target, const std::vector<WantedRange>& ranges)>
      forget_everywhere = {};
  // The figures of the process, padded to kFiguresBytesMax bytes; the server's threads call it.
  std::function<std::string()> figures;
};

struct ShareStats {
  HeldStats store = {};
  TierBytes hits = {};             // bytes that this process read from its own share
  TierBytes served_hits = {};      // bytes that others read from it
  uint64_t origin_bytes = 0;       // bytes read from the origin for the share
  uint64_t ahead_bytes = 0;        // part of origin_bytes: prefetched
  uint64_t handed_over_bytes = 0;  // bytes that others hold for the share
  io::serve::Served served = {};
  std::string trouble = {};  // why less is kept than the options allow; empty: no trouble
};

// Any thread may call anything.
class Share final : private io::serve::ServedFiles {
 public:
  // `sources` and `peers` must outlive the share. Errors: those of HeldRanges::open() and
  // RangeServer::start(); kNoMemory if no thread can be started.
  static Result<std::unique_ptr<Share>> open(const ShareOptions& options,
                                             const DatasetOrigins& sources, Peers& peers);
  // All reads must have ended before.
  ~Share() override;
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  uint16_t port() const { return server_->port(); }
  // The port of the server for this machine's processes; 0: there is none.
  uint16_t local_port() const { return local_ == nullptr ? 0 : local_->server->port(); }
  const io::Secret& local_secret() const { return local_secret_; }
  using File = std::shared_ptr<const CachedFile>;
  using Ranges = std::vector<io::Range>;
  using Done = std::function<void(Status)>;
  // Fills the ranges with held bytes; missing bytes are fetched from other members or the origin,
  // and kept. `anew`: other members are not asked, because the held bytes were wrong. Calls `done`
  // once, in any thread.
  void read(const File& file, Ranges ranges, const io::ReadOptions& options, bool anew, Done done)
      EXCLUDES(mutex_);
  // ServedFiles::prefetch(). Fetches only while there is room and no read waits for the origin.
  io::PrefetchOutcome prefetch(const std::string& target,
                               const std::vector<WantedRange>& ranges) const override
      EXCLUDES(mutex_);
  // Sets the members of the cache.
  void note_members(const std::vector<Member>& members) { others_.note_members(members); }
  // Forgets these bytes, which turned out to be wrong, here and at members that hold them for this
  // machine.
  void forget(const std::string& target, const std::vector<WantedRange>& ranges) const override;
  // Stops serving, and ends the reads in flight.
  void end() EXCLUDES(mutex_);
  // At the end all held ranges stay, or only those on the disk.
  void stay() { store_->stay(); }
  void stay_on_disk() { store_->stay_on_disk(); }
  ShareStats stats() const;

 private:
  // A read from the origin that is in progress, and the readers that wait for the same bytes.
  struct Fetch {
    FileId file{};
    bool is_ahead = false;                             // a prefetch: no reader needs it yet
    std::vector<std::pair<uint64_t, uint64_t>> spans;  // begin and end
    std::vector<std::function<void()>> waiters;
  };
  using Fetches = std::list<Fetch>;
  // Whom a fetch is for: this process; this process again, because the held bytes were wrong
  // (kAnew); other processes; a member that has no room for what it owns; or nobody yet (kAhead).
  enum class For : uint8_t { kItself, kAnew, kOthers, kFullMember, kAhead };
  // What a fetch does with its ranges.
  struct Plan {
    For whom = For::kItself;
    Ranges here;        // to be held here
    Ranges over;        // for which there is no room here
    uint64_t room = 0;  // bytes reserved for `here`
  };

  Share(const ShareOptions& options, const DatasetOrigins& sources, Peers& peers,
        std::unique_ptr<HeldRanges> store)
      : sources_(sources),
        figures_(options.figures),
        local_secret_(options.local_secret),
        store_(std::move(store)),
        others_(peers, options.others, store_->stats().found_bytes > 0) {}
  void read_for(For whom, const File& file, Ranges ranges, const io::ReadOptions& options,
                Done done) EXCLUDES(mutex_);
  io::PrefetchOutcome begin_ahead(uint64_t room, uint32_t most) EXCLUDES(mutex_);
  void read_ahead(const std::string& target, const std::vector<WantedRange>& ranges)
      EXCLUDES(mutex_);
  void end_ahead(const Status& status) EXCLUDES(mutex_);
  void wait_for_ahead() EXCLUDES(mutex_);
  std::function<void()> waiter_for(const std::stop_token& stop, const Done& done,
                                   std::function<void()> look_again);
  void count(For whom, const TierBytes& hits) const;
  void fetch(For whom, const File& file, const Ranges& ranges, const io::ReadOptions& options,
             Fetches::iterator fetch, Done done) EXCLUDES(mutex_);
  Plan plan_fetch(For whom, const Ranges& ranges) EXCLUDES(mutex_);
  void fetch_rest(const File& file, Plan plan, Ranges rest, const io::ReadOptions& options,
                  Fetches::iterator fetch, Done done) EXCLUDES(mutex_);
  void finish_fetch(Fetches::iterator fetch) EXCLUDES(mutex_);
  // ServedFiles, for other members:
  std::optional<uint64_t> size(const std::string& target) const override;
  std::optional<std::vector<io::serve::HeldRange>> find(
      const std::string& target, const std::vector<WantedRange>& ranges) const override;
  void read(const std::string& target, Ranges ranges, Done done) const override;
  bool may_hold(const std::string& target, const std::vector<WantedRange>& ranges) const override
      EXCLUDES(mutex_);
  void hold(const std::string& target, Ranges ranges, Done done) const override;
  void read_served(For whom, const std::string& target, Ranges ranges, Done done) const;
  Result<File> open_served(const std::string& target) const;
  // A decoded target. It is kept, because members ask for the same targets again and again.
  struct Named {
    std::string path;
    uint64_t size = 0;
    FileId id{};
  };
  std::optional<Named> named(const std::string& target) const EXCLUDES(names_mutex_);

  // The same files for this machine's processes, including what other members hold of them.
  struct Local final : io::serve::ServedFiles {
    explicit Local(const Share& own) : share(own) {}
    std::optional<uint64_t> size(const std::string& target) const override {
      return share.size(target);
    }
    std::optional<std::vector<io::serve::HeldRange>> find(
        const std::string& target, const std::vector<WantedRange>& ranges) const override {
      return share.find(target, ranges);
    }
    void forget(const std::string& target, const std::vector<WantedRange>& ranges) const override {
      forget_everywhere(target, ranges);
    }
    void read(const std::string& target, Ranges ranges, Done done) const override;

    const Share& share;
    decltype(ShareOptions::everywhere) everywhere;
    decltype(ShareOptions::forget_everywhere) forget_everywhere;
    std::unique_ptr<io::serve::RangeServer> server;
  };
  Status serve(const ShareOptions& options);
  io::serve::Served served() const;

  const DatasetOrigins& sources_;
  const std::function<std::string()> figures_;
  const io::Secret local_secret_;
  const std::unique_ptr<HeldRanges> store_;
  mutable Others others_;
  std::stop_source stop_;
  struct Hits {
    std::atomic<uint64_t> memory = 0;
    std::atomic<uint64_t> disk = 0;
    TierBytes bytes() const { return {.memory = memory, .disk = disk}; }
  };
  mutable Hits own_hits_;
  mutable Hits served_hits_;
  std::atomic<uint64_t> origin_bytes_ = 0;
  std::atomic<uint64_t> ahead_bytes_ = 0;
  mutable base::Mutex names_mutex_;
  mutable std::unordered_map<std::string, Named> names_ GUARDED_BY(names_mutex_);
  mutable base::Mutex mutex_;
  Fetches fetches_ GUARDED_BY(mutex_);
  uint64_t coming_bytes_ GUARDED_BY(mutex_) = 0;  // room reserved for fetches in progress
  base::CondVar ahead_ends_;
  uint32_t ahead_ GUARDED_BY(mutex_) = 0;         // prefetches in progress
  int64_t ahead_from_ns_ GUARDED_BY(mutex_) = 0;  // no prefetch begins before
  int64_t ahead_wait_ns_ GUARDED_BY(mutex_) = 0;
  // Bytes from an origin are kept and handed on by a thread of its own: the origin's thread must
  // not wait for a disk, and must not be the one that destroys the origin.
  base::Queue<std::function<void()>> jobs_{SIZE_MAX};
  base::Crew keepers_;
  // These threads do the reads that block the calling thread, and begin prefetches.
  base::Queue<std::function<void()>> reads_{SIZE_MAX};
  base::Crew readers_;
  std::unique_ptr<io::serve::RangeServer> server_;
  std::unique_ptr<Local> local_;
};

}  // namespace forebay::cache
