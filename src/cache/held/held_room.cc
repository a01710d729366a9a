// How much room is left, and which ranges are not held.
#include <algorithm>

#include "cache/held/held_ranges.h"

namespace forebay::cache {

using base::MutexLock;

namespace {

// Bytes in the list: of an entry without its checksums; and the checksums, as one part in this many
// of the held bytes.
constexpr uint64_t kEntryBytes = 64;
constexpr uint64_t kChecksShare = 1024;

}  // namespace

std::vector<WantedRange> HeldRanges::missing(const FileId& file,
                                             const std::vector<WantedRange>& ranges) const {
  std::vector<WantedRange> missing;
  for (const WantedRange& range : ranges) {
    for (const Gap& gap : gaps(file, range.offset, range.length)) {
      missing.push_back({gap.offset, gap.length});
    }
  }
  return missing;
}

uint64_t HeldRanges::free_bytes() const {
  MutexLock lock(mutex_);
  uint64_t bytes = 0;
  for (const Tier& tier : tiers_) {
    if (tier.files == nullptr) continue;
    const uint64_t taken = tier.held_bytes + tier.list->bytes();
    bytes += tier.bytes_max - std::min(taken, tier.bytes_max);
  }
  return bytes;
}

// Counts the first and the last block as whole ones, and the entries in the list.
uint64_t HeldRanges::room_for(uint64_t length) {
  const uint64_t extents = length / kExtentBytes + 2;
  return length + length / kChecksShare + 2 * kCheckBytes + extents * kEntryBytes;
}

}  // namespace forebay::cache
