// A machine's share of its job's cache, in the process that serves it: what is held, what is being
// fetched from the origin for it, and the server that gives it to the other members.
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

// Instead of a file's target: what the process that serves tells of itself (figures.h).
inline constexpr std::string_view kFiguresTarget = "/figures";

struct ShareOptions {
  TierOptions memory;
  TierOptions disk;
  io::Found found = io::Found::kRemove;  // what an earlier process held
  io::serve::RangeServerOptions server;
  std::function<std::vector<Member>()> others;  // the other members that may be asked
  // Reads from the whole cache. Where it is given, this machine's processes are served in this way,
  // over loopback and without TLS, also those of other jobs.
  std::function<void(const std::shared_ptr<const CachedFile>& file, std::vector<io::Range> ranges,
                     const io::ReadOptions& options, std::function<void(Status)> done)>
      everywhere = {};
  // Given with it: these bytes of the target turned out to be wrong, whoever holds them.
  std::function<void(const std::string& target, const std::vector<WantedRange>& ranges)>
      forget_everywhere = {};
  // What the share's process tells of itself: kFiguresBytesMax bytes, by the server's threads.
  std::function<std::string()> figures;
};

struct ShareStats {
  HeldStats store = {};
  TierBytes hits = {};             // what this process read from its own share
  TierBytes served_hits = {};      // what others had from it
  uint64_t origin_bytes = 0;       // read from the origin for the share
  uint64_t ahead_bytes = 0;        // of these, before anybody needed them
  uint64_t handed_over_bytes = 0;  // that others hold for the share
  io::serve::Served served = {};
  std::string trouble = {};  // why less is kept than was asked for; empty while all is well
};

// Any thread may call anything.
class Share final : private io::serve::ServedFiles {
 public:
  // `sources` and `peers` outlive the share. Errors: those of HeldRanges::open() and
  // RangeServer::start().
  static Result<std::unique_ptr<Share>> open(const ShareOptions& options,
                                             const DatasetOrigins& sources, Peers& peers);
  // Whoever reads has ended before.
  ~Share() override;
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  uint16_t port() const { return server_->port(); }
  // 0: there is no such server.
  uint16_t local_port() const { return local_ == nullptr ? 0 : local_->server->port(); }
  using File = std::shared_ptr<const CachedFile>;
  using Ranges = std::vector<io::Range>;
  using Done = std::function<void(Status)>;
  // Fills the ranges from what is held, and from the origin, from which it is kept. `anew`: nothing
  // comes from other members, because what was held was wrong. Calls `done` once, in any thread.
  void read(const File& file, Ranges ranges, const io::ReadOptions& options, bool anew, Done done)
      EXCLUDES(mutex_);
  // ServedFiles::prefetch(), where nobody waits for the origin, and only while there is room.
  io::PrefetchOutcome prefetch(const std::string& target,
                               const std::vector<WantedRange>& ranges) const override
      EXCLUDES(mutex_);
  // These are the members from now on.
  void note_members(const std::vector<Member>& members) { others_.note_members(members); }
  // These bytes turned out to be wrong, whether they are held here or for this machine.
  void forget(const std::string& target, const std::vector<WantedRange>& ranges) const override;
  // Ends the serving, and what is in flight.
  void end() EXCLUDES(mutex_);
  // What is held, or what is on the disk, stays there.
  void stay() { store_->stay(); }
  void stay_on_disk() { store_->stay_on_disk(); }
  ShareStats stats() const;

 private:
  // What is being read from the origin, and who waits for the same bytes.
  struct Fetch {
    FileId file{};
    bool is_ahead = false;                             // nobody needs it yet
    std::vector<std::pair<uint64_t, uint64_t>> spans;  // begin and end
    std::vector<std::function<void()>> waiters;
  };
  using Fetches = std::list<Fetch>;
  // For this process itself, also because what was held was wrong; for others; for a member that
  // has no room for what it owns; or before anybody needs it.
  enum class For : uint8_t { kItself, kAnew, kOthers, kFullMember, kAhead };
  // What a fetch does with its ranges.
  struct Plan {
    For whom = For::kItself;
    Ranges here;        // shall be held here
    Ranges over;        // for which there is no room
    uint64_t room = 0;  // that was taken for the first ones
  };

  Share(const ShareOptions& options, const DatasetOrigins& sources, Peers& peers,
        std::unique_ptr<HeldRanges> store)
      : sources_(sources),
        figures_(options.figures),
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
  // What a target names; members ask for the same ones again and again.
  struct Named {
    std::string path;
    uint64_t size = 0;
    FileId id{};
  };
  std::optional<Named> named(const std::string& target) const EXCLUDES(names_mutex_);

  // The same files for this machine's processes, with what other members hold of them.
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
  uint64_t coming_bytes_ GUARDED_BY(mutex_) = 0;  // room for what is being fetched
  base::CondVar ahead_ends_;
  uint32_t ahead_ GUARDED_BY(mutex_) = 0;         // fetches that nobody needs yet
  int64_t ahead_from_ns_ GUARDED_BY(mutex_) = 0;  // none begins before
  int64_t ahead_wait_ns_ GUARDED_BY(mutex_) = 0;
  // What has come from an origin is kept, and handed on, by a thread of its own: that of the origin
  // must not wait for a disk, and must not be the one that ends the origin.
  base::Queue<std::function<void()>> jobs_{SIZE_MAX};
  base::Crew keepers_;
  // Where an origin makes threads wait, these do; they also begin what is fetched ahead.
  base::Queue<std::function<void()>> reads_{SIZE_MAX};
  base::Crew readers_;
  std::unique_ptr<io::serve::RangeServer> server_;
  std::unique_ptr<Local> local_;
};

}  // namespace forebay::cache
