// Which ranges of which files are held, as extents that do not overlap.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "cache/held/extent_list.h"

namespace forebay::cache {

// The block size of most file systems; neighbouring extents of a file may share a block.
inline constexpr uint64_t kBlock = kCheckBytes;

// Consecutive blocks, by their numbers in the file.
struct Blocks {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t bytes() const { return (end - begin) * kBlock; }
};

inline Blocks blocks_of(uint64_t offset, uint64_t length) {
  return {offset / kBlock, (offset + length - 1) / kBlock + 1};
}

struct Extent {
  uint32_t length = 0;
  uint8_t tier = 0;
  bool is_found = false;  // left by an earlier process, and not read since
  uint64_t later = 0;     // its blocks that the next epoch does not need: blocks_in_extent()
  std::vector<uint32_t> crc32cs = {};  // of its parts; empty while it is being written

  bool is_written() const { return !crc32cs.empty(); }
};

// An extent of a known file.
struct PlacedExtent {
  uint64_t offset = 0;
  Extent extent;
};

// Bytes of a file that are not held.
struct Gap {
  uint64_t offset = 0;
  uint64_t length = 0;
};

// One thread at a time may use it.
class ExtentMap {
 public:
  using Extents = std::map<uint64_t, Extent>;  // by offset
  const std::map<FileId, Extents>& files() const { return files_; }

  // Null if no extent begins there.
  Extent* find(const FileId& file, uint64_t offset);
  // False, and nothing is added, if it would overlap another one.
  bool add(const FileId& file, uint64_t offset, Extent extent);
  // The extent must be there.
  Extent remove(const FileId& file, uint64_t offset);
  // Cuts an extent between blocks that are needed soon and blocks that are needed later, whose
  // pieces have all bits of `later`. Returns the pieces in ascending order.
  std::vector<PlacedExtent> cut(const FileId& file, uint64_t offset);

  // The completely written extents with bytes of the range and their offsets, ascending. They stay
  // valid until they are removed or cut.
  std::vector<std::pair<uint64_t, Extent*>> find_written(const FileId& file, uint64_t offset,
                                                         uint64_t length);
  // The parts of the range that are neither held nor being written.
  std::vector<Gap> gaps(const FileId& file, uint64_t offset, uint64_t length) const;
  // The blocks of [offset, offset + length) in which no other extent of this tier has bytes.
  Blocks own_blocks(const FileId& file, uint8_t tier, uint64_t offset, uint64_t length) const;
  bool has_any(const FileId& file, uint8_t tier) const;
  // The written extents of a tier, for its list.
  std::vector<ExtentList::Entry> listed(uint8_t tier) const;

 private:
  // The first extent that may have bytes at or after the offset.
  template <class Map>
  static auto first_at(Map& extents, uint64_t offset) {
    auto at = extents.upper_bound(offset);
    if (at != extents.begin()) --at;
    return at;
  }

  std::map<FileId, Extents> files_;
};

}  // namespace forebay::cache
