// What a machine's share has from the other members, before it asks the origin: what they held when
// they owned it, and what they hold because this machine has no room.
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
  // machine held something, and may have handed over ranges, too.
  Others(Peers& peers, std::function<std::vector<Member>()> members, bool is_successor)
      : peers_(peers), members_(std::move(members)), is_successor_(is_successor) {}

  // Begins to fill the ranges, which this machine shall hold, with what others hold of them. Calls
  // `done` once, in any thread, with what is left.
  void take_over(const File& file, Ranges ranges, const io::ReadOptions& options, Rest done);
  // Begins to fill the ranges, for which this machine has no room, by members that hold them, or
  // hold them from now on. Calls `done` once, in any thread, with what is left.
  void hand_over(const File& file, Ranges ranges, const io::ReadOptions& options, Rest done)
      EXCLUDES(mutex_);
  // These are the members from now on.
  void note_members(const std::vector<Member>& members) EXCLUDES(mutex_);
  // These bytes turned out to be wrong: whoever holds them for this machine shall forget them.
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
  // How often in a row nobody held what this machine did not.
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
