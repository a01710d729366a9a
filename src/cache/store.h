// What one machine of a job holds of the job's data: ranges of files, in memory and on a disk, each
// with a checksum of its own. Everything here can be had again from where it came.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/mutex.h"
#include "io/origin.h"
#include "io/scratch_files.h"

namespace forebay::cache {

using base::Bytes;
using base::Result;
using base::Status;
using FileId = base::Sha256;  // of a file's name and of what it is known to be

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

struct StoreStats {
  TierBytes held;              // in whole blocks of the file system
  uint64_t refused_bytes = 0;  // not kept, because nothing had room
  uint64_t damaged = 0;        // ranges whose bytes were not those that were written
};

// Any thread may call anything; calls wait for the disk.
class Store {
 public:
  // Errors: those of ScratchFiles::open().
  static Result<std::unique_ptr<Store>> open(const TierOptions& memory, const TierOptions& disk);

  // Fills what is held of these ranges, checked, and returns the others, which ascend like the
  // given ones and are parts of them. Adds what was filled to `hits`.
  std::vector<io::Range> read(const FileId& file, const std::vector<io::Range>& ranges,
                              TierBytes* hits) EXCLUDES(mutex_);
  // Keeps these bytes of the file, as far as they are not held and there is room.
  void keep(const FileId& file, uint64_t offset, Bytes bytes) EXCLUDES(mutex_);
  // These bytes of the file turned out to be wrong: they are not read again.
  void forget(const FileId& file, uint64_t offset, uint64_t length) EXCLUDES(mutex_);

  StoreStats stats() const EXCLUDES(mutex_);
  // Why less is kept than was asked for, in words; empty while all is well.
  std::string trouble() const EXCLUDES(mutex_);

 private:
  struct Extent {
    uint32_t length = 0;
    uint32_t crc32c = 0;
    uint8_t tier = 0;
    bool is_bad = false;
  };
  using Extents = std::map<uint64_t, Extent>;  // by their offsets; they do not overlap
  struct Placed {
    uint64_t offset = 0;
    Extent extent;
  };

  // Bytes of a file that are not held, or only damaged.
  struct Gap {
    uint64_t offset = 0;
    uint64_t length = 0;
    std::optional<uint8_t> damaged_in = {};  // the tier; exactly these bytes are damaged there
  };

  Store() = default;
  bool read_extent(const FileId& file, const Placed& placed, const io::Range& wanted,
                   TierBytes* hits);
  std::vector<Placed> placed_in(const FileId& file, const io::Range& range) const EXCLUDES(mutex_);
  std::vector<Gap> gaps(const FileId& file, uint64_t offset, uint64_t length) const
      EXCLUDES(mutex_);
  void fill(const FileId& file, const Gap& gap, Bytes bytes) EXCLUDES(mutex_);
  static bool overlaps(const Extents& extents, uint64_t offset, uint64_t length);
  std::optional<uint8_t> tier_with_room(const Extents& extents, uint64_t offset, uint64_t length,
                                        uint64_t* cost) const REQUIRES(mutex_);
  void give_up(uint8_t tier, uint64_t cost, const Status& why) REQUIRES(mutex_);

  // Memory and disk; null for one that is left out. Set once.
  std::array<std::unique_ptr<io::ScratchFiles>, 2> scratch_;
  mutable base::Mutex mutex_;
  std::array<uint64_t, 2> bytes_max_ GUARDED_BY(mutex_){};
  std::array<uint64_t, 2> held_bytes_ GUARDED_BY(mutex_){};
  std::map<FileId, Extents> files_ GUARDED_BY(mutex_);
  uint64_t refused_bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t damaged_ GUARDED_BY(mutex_) = 0;
  std::string trouble_ GUARDED_BY(mutex_);
};

}  // namespace forebay::cache
