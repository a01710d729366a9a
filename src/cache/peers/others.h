// What a machine's share reads from other members before it asks the origin: ranges that they held
// when they owned them, and ranges that they hold because this machine has no room.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cache/members/members.h"
#include "cache/peers/cached_file.h"
#include "cache/peers/handed_over.h"
#include "cache/peers/peers.h"

namespace forebay::cache {

// Any thread may call anything.
class Others {
 public:
  using File = std::shared_ptr<const CachedFile>;
  using Ranges = std::vector<io::Range>;
  using Rest = std::function<void(Ranges rest)>;

  // `members`: the other members that may be asked. `is_successor`: an earlier process of this
  // machine held ranges, and may have handed over others.
  Others(Peers& peers, std::function<std::vector<Member>()> members, bool is_successor)
      : peers_(peers), members_(std::move(members)), is_successor_(is_successor) {}

  // Begins to fill ranges that this machine shall hold with what others hold of them. Calls `done`
  // once, in any thread, with the ranges that are left.
  void take_over(const File& file, Ranges ranges, const io::ReadOptions& options, Rest done);
  // Begins to fill ranges for which this machine has no room from members that hold them, or hold
  // them from now on. Calls `done` once, in any thread, with the ranges that are left.
  void hand_over(const File& file, Ranges ranges, const io::ReadOptions& options, Rest done)
      EXCLUDES(mutex_);
  // Sets the members of the cache.
  void note_members(const std::vector<Member>& members) EXCLUDES(mutex_);
  // Tells the members that hold these bytes for this machine to forget them, because they turned
  // out to be wrong.
  void forget(const FileId& file, const std::string& target, uint64_t size,
              const std::vector<WantedRange>& ranges) EXCLUDES(mutex_);
  uint64_t handed_over_bytes() const EXCLUDES(mutex_);

 private:
  // Ranges for which members are asked one after the other.
  struct Search;
  void ask_next(const std::shared_ptr<Search>& search, const Ranges& ranges, size_t turn)
      EXCLUDES(mutex_);
  std::map<size_t, Ranges> whom_to_ask(const Search& search, const Ranges& ranges, size_t turn,
                                       Ranges* others) EXCLUDES(mutex_);
  void note_answer(const Search& search, const Member& member, const Ranges& asked, bool is_known,
                   const Status& status) EXCLUDES(mutex_);
  bool is_full(const Member& member, int64_t now_ns) const REQUIRES(mutex_);

  Peers& peers_;
  const std::function<std::vector<Member>()> members_;
  const bool is_successor_;
  // How many questions of take_over() and of hand_over() in a row no member could serve.
  std::atomic<uint32_t> asked_in_vain_ = 0;
  std::atomic<uint32_t> searched_in_vain_ = 0;
  // A member that had no room.
  struct Full {
    int64_t until_ns = 0;
    int64_t for_ns = 0;
  };
  mutable base::Mutex mutex_;
  HandedOver handed_over_ GUARDED_BY(mutex_);
  std::map<std::string, Full> full_ GUARDED_BY(mutex_);  // by members' ids
};

}  // namespace forebay::cache
