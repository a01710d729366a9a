// What one machine of a job holds of the job's data: ranges of files, in memory and on a disk, each
// with a checksum of its own. Everything here can be had again from where it came.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/mutex.h"
#include "cache/held/extent_list.h"
#include "io/origin.h"
#include "io/scratch_files.h"
#include "io/serve/held_range.h"
#include "io/serve/ranges_wanted.h"

namespace forebay::cache {

using base::Bytes;
using io::serve::WantedRange;

// A place that ranges are kept in.
struct TierOptions {
  std::string folder;      // in memory (a tmpfs) or on a disk
  uint64_t bytes_max = 0;  // 0: the tier is left out
};

// Bytes by the tier that they are in.
struct TierBytes {
  uint64_t memory = 0;
  uint64_t disk = 0;
};

struct HeldStats {
  TierBytes held;              // in whole blocks of the file system
  uint64_t found_bytes = 0;    // that an earlier process left, when the store was opened
  uint64_t refused_bytes = 0;  // not kept, because nothing had room
  uint64_t dropped_bytes = 0;  // to make room for what is needed sooner
  uint64_t damaged = 0;        // ranges whose bytes were not those that were written
};

// Any thread may call anything; calls wait for the disk.
class HeldRanges {
 public:
  // `found`: what an earlier process held is used, or removed. Errors: those of
  // ScratchFiles::open() and ExtentList::begin().
  static Result<std::unique_ptr<HeldRanges>> open(const TierOptions& memory,
                                                  const TierOptions& disk, io::Found found);

  // Fills what is held of these ranges, checked, and returns the others, which ascend like the
  // given ones and are parts of them. Adds what was filled to `hits`.
  std::vector<io::Range> read(const FileId& file, const std::vector<io::Range>& ranges,
                              TierBytes* hits) EXCLUDES(mutex_);
  // Where the ranges are held, for whoever sends them; nothing where a part of them is not. Their
  // bytes are not checked yet, but for those at the ends. Sets `hits` where they are held.
  std::optional<std::vector<io::serve::HeldRange>> find(const FileId& file,
                                                        const std::vector<WantedRange>& ranges,
                                                        TierBytes* hits) EXCLUDES(mutex_);
  // Keeps these bytes of the file, as far as they are not held and there is room. What is needed
  // again later makes room for what is needed soon.
  void keep(const FileId& file, uint64_t offset, Bytes bytes, io::Again again = io::Again::kSoon)
      EXCLUDES(mutex_);
  // These bytes of the file turned out to be wrong: they are not held any more.
  void forget(const FileId& file, uint64_t offset, uint64_t length) EXCLUDES(mutex_);
  // At the end everything stays for a later process, or for another one of this machine.
  void stay();
  // The same for what is on the disk alone.
  void stay_on_disk();

  // The parts of the ranges that are neither held nor being written.
  std::vector<WantedRange> missing(const FileId& file, const std::vector<WantedRange>& ranges) const
      EXCLUDES(mutex_);
  // Room that nothing takes. Not counted: what is held and may go for something else.
  uint64_t free_bytes() const EXCLUDES(mutex_);
  // The most that a range of this length takes of it.
  static uint64_t room_for(uint64_t length);

  HeldStats stats() const EXCLUDES(mutex_);
  // Why less is kept than was asked for, in words; empty while all is well.
  std::string trouble() const EXCLUDES(mutex_);

 private:
  struct Extent {
    uint32_t length = 0;
    uint8_t tier = 0;
    bool is_found = false;  // an earlier process left it, and nobody has asked for it since
    uint64_t later = 0;     // its blocks that the next epoch does not need (blocks_in_extent())
    std::vector<uint32_t> crc32cs = {};  // of its parts; empty while somebody is writing it
  };
  using Extents = std::map<uint64_t, Extent>;  // by their offsets; they do not overlap
  using Files = std::map<FileId, Extents>;
  struct Placed {
    uint64_t offset = 0;
    Extent extent;
  };
  // Bytes of a file that are not held.
  struct Gap {
    uint64_t offset = 0;
    uint64_t length = 0;
  };
  struct Tier {
    std::unique_ptr<io::ScratchFiles> files;
    std::unique_ptr<ExtentList> list;
    uint64_t bytes_max = 0;
    uint64_t held_bytes = 0;
    uint64_t list_bytes = 0;  // of the list when it was written anew
    // Extents that may go: those that were found, and those with blocks that are needed later.
    std::set<std::pair<FileId, uint64_t>> found = {};
    std::set<std::pair<FileId, uint64_t>> later = {};
  };

  HeldRanges() = default;
  Status open_tier(uint8_t number, const TierOptions& options, io::Found found) EXCLUDES(mutex_);
  void use_found(uint8_t number, const std::vector<ExtentList::Entry>& entries) REQUIRES(mutex_);
  void remove_unlisted(uint8_t number, const std::vector<std::string>& names) REQUIRES(mutex_);
  std::vector<io::Range> read_marked(const FileId& file, const std::vector<io::Range>& ranges,
                                     TierBytes* hits) EXCLUDES(mutex_);
  bool read_extent(const FileId& file, const Placed& placed, const io::Range& wanted,
                   TierBytes* hits);
  bool read_checked(const FileId& file, const Placed& placed, uint64_t offset,
                    base::MutableBytes out) EXCLUDES(mutex_);
  bool find_piece(const FileId& file, const Placed& placed, uint64_t begin, uint64_t end,
                  io::serve::HeldRange* held) EXCLUDES(mutex_);
  void note_damage(const FileId& file, const Placed& placed, const Status& status) EXCLUDES(mutex_);
  void mark(const FileId& file, std::span<const WantedRange> ranges) EXCLUDES(mutex_);
  std::vector<Placed> placed_in(const FileId& file, uint64_t offset, uint64_t length) const
      EXCLUDES(mutex_);
  std::vector<Gap> gaps(const FileId& file, uint64_t offset, uint64_t length) const
      EXCLUDES(mutex_);
  void fill(const FileId& file, const Gap& gap, Bytes bytes, io::Again again) EXCLUDES(mutex_);
  std::optional<uint8_t> begin_extent(const FileId& file, const Gap& gap, io::Again again)
      EXCLUDES(mutex_);
  static bool has_room(const Tier& tier, uint64_t bytes);
  bool make_room(uint8_t tier, uint64_t bytes, io::Again again) REQUIRES(mutex_);
  void drop(Files::iterator file, Extents::iterator extent) REQUIRES(mutex_);
  void drop_later(Files::iterator file, Extents::iterator extent) REQUIRES(mutex_);
  void set_worth(const FileId& file, uint64_t offset, Extent& extent, bool is_found, uint64_t later)
      REQUIRES(mutex_);
  void write_down(Tier& tier, const ExtentList::Entry& entry) REQUIRES(mutex_);
  void shorten_list(uint8_t number) REQUIRES(mutex_);
  void give_up(Tier& tier, const Status& why) REQUIRES(mutex_);

  // Memory and disk. Their files are set once; null for a tier that is left out.
  mutable base::Mutex mutex_;
  std::array<Tier, 2> tiers_ GUARDED_BY(mutex_);
  std::array<io::ScratchFiles*, 2> scratch_{};
  Files files_ GUARDED_BY(mutex_);
  HeldStats stats_ GUARDED_BY(mutex_);  // but for `held`
  uint64_t asked_bytes_ GUARDED_BY(mutex_) = 0;
  std::string trouble_ GUARDED_BY(mutex_);
};

}  // namespace forebay::cache
