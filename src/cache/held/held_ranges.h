// The part of a job's data that one machine holds: ranges of files, in memory and on a disk, with
// checksums. All of it can be fetched again from its origin.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/mutex.h"
#include "cache/held/extent_map.h"
#include "cache/held/tier.h"
#include "io/origin.h"
#include "io/serve/held_range.h"
#include "io/serve/ranges_wanted.h"

namespace forebay::cache {

using base::Bytes;
using io::serve::WantedRange;

// Bytes by tier.
struct TierBytes {
  uint64_t memory = 0;
  uint64_t disk = 0;
};

struct HeldStats {
  TierBytes held;              // in whole blocks of the file system
  uint64_t found_bytes = 0;    // that an earlier process left, found by open()
  uint64_t refused_bytes = 0;  // not kept, because no tier had room
  uint64_t dropped_bytes = 0;  // to make room for bytes that are needed sooner
  uint64_t damaged = 0;        // extents whose bytes differed from what was written
};

// Any thread may call anything; calls wait for the disk.
class HeldRanges {
 public:
  // `found`: whether what an earlier process held is used or removed. Errors: those of
  // ScratchFiles::open() and ExtentList::begin().
  static Result<std::unique_ptr<HeldRanges>> open(const TierOptions& memory,
                                                  const TierOptions& disk, io::Found found);

  // Fills the held parts of these ranges with checked bytes and returns the other parts, in the
  // same order. Adds the filled bytes to `hits`.
  std::vector<io::Range> read(const FileId& file, const std::vector<io::Range>& ranges,
                              TierBytes* hits) EXCLUDES(mutex_);
  // Where the ranges are held, so that they can be sent; nothing if any part is missing. Only short
  // ranges and parts at the ends of long ones are checked. Sets `hits` if all are held.
  std::optional<std::vector<io::serve::HeldRange>> find(const FileId& file,
                                                        const std::vector<WantedRange>& ranges,
                                                        TierBytes* hits) EXCLUDES(mutex_);
  // Keeps those of these bytes that are not held yet, as far as there is room. Bytes that are
  // needed later are dropped to make room for bytes that are needed soon.
  void keep(const FileId& file, uint64_t offset, Bytes bytes, io::Again again = io::Again::kSoon)
      EXCLUDES(mutex_);
  // Drops these bytes of the file, which turned out to be wrong.
  void forget(const FileId& file, uint64_t offset, uint64_t length) EXCLUDES(mutex_);
  // Keeps everything at the end, for a later process or for another one of this machine.
  void stay();
  // Keeps only the disk tier at the end.
  void stay_on_disk() {
    if (scratch_[1] != nullptr) scratch_[1]->stay();
  }

  // The parts of the ranges that are neither held nor being written.
  std::vector<WantedRange> missing(const FileId& file, const std::vector<WantedRange>& ranges) const
      EXCLUDES(mutex_);
  // Unused room. Held bytes that may be dropped for others do not count.
  uint64_t free_bytes() const EXCLUDES(mutex_);

  HeldStats stats() const EXCLUDES(mutex_);
  // Why less is kept than the limits allow, in words; empty: no trouble.
  std::string trouble() const EXCLUDES(mutex_);

 private:
  HeldRanges() = default;
  Status open_tier(uint8_t number, const TierOptions& options, io::Found found) EXCLUDES(mutex_);
  void use_found(uint8_t number, const std::vector<ExtentList::Entry>& entries) REQUIRES(mutex_);
  void remove_unlisted(uint8_t number, const std::vector<std::string>& names) REQUIRES(mutex_);
  std::vector<io::Range> read_marked(const FileId& file, const std::vector<io::Range>& ranges,
                                     TierBytes* hits) EXCLUDES(mutex_);
  bool read_extent(const FileId& file, const PlacedExtent& placed, const io::Range& wanted,
                   TierBytes* hits);
  bool read_checked(const FileId& file, const PlacedExtent& placed, uint64_t offset,
                    base::MutableBytes out) EXCLUDES(mutex_);
  bool find_piece(const FileId& file, const PlacedExtent& placed, uint64_t begin, uint64_t end,
                  io::serve::HeldRange* held) EXCLUDES(mutex_);
  void note_damage(const FileId& file, const PlacedExtent& placed, const Status& status)
      EXCLUDES(mutex_);
  void mark(const FileId& file, std::span<const WantedRange> ranges) EXCLUDES(mutex_);
  std::vector<PlacedExtent> written(const FileId& file, uint64_t offset, uint64_t length)
      EXCLUDES(mutex_);
  std::vector<Gap> gaps(const FileId& file, uint64_t offset, uint64_t length) const
      EXCLUDES(mutex_);
  void fill(const FileId& file, const Gap& gap, Bytes bytes, io::Again again) EXCLUDES(mutex_);
  std::optional<uint8_t> begin_extent(const FileId& file, const Gap& gap, io::Again again)
      EXCLUDES(mutex_);
  bool make_room(uint8_t number, uint64_t bytes, io::Again again) REQUIRES(mutex_);
  void drop(const FileId& file, uint64_t offset) REQUIRES(mutex_);
  void drop_later(const FileId& file, uint64_t offset) REQUIRES(mutex_);
  void write_down(Tier& tier, const ExtentList::Entry& entry) REQUIRES(mutex_);
  void begin_list(uint8_t number) REQUIRES(mutex_);
  void give_up(Tier& tier, const Status& why) REQUIRES(mutex_);

  // tiers_ are memory and disk. scratch_ are their files, set once; null if there is no such tier.
  mutable base::Mutex mutex_;
  std::array<Tier, 2> tiers_ GUARDED_BY(mutex_);
  std::array<io::ScratchFiles*, 2> scratch_{};
  ExtentMap extents_ GUARDED_BY(mutex_);
  HeldStats stats_ GUARDED_BY(mutex_);  // except `held`
  uint64_t asked_bytes_ GUARDED_BY(mutex_) = 0;
  std::string trouble_ GUARDED_BY(mutex_);
};

}  // namespace forebay::cache
