// How much room the store has left, and what it does not hold.
#include <algorithm>

#include "cache/held/held_ranges.h"

namespace forebay::cache {

using base::MutexLock;

namespace {

// Bytes of the list: of an entry, but for its checksums, and those as a share of what is held.
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

// The blocks that it begins and ends in count whole, and so do its entries in the list.
uint64_t HeldRanges::room_for(uint64_t length) {
  const uint64_t extents = length / kExtentBytes + 2;
  return length + length / kChecksShare + 2 * kCheckBytes + extents * kEntryBytes;
}

}  // namespace forebay::cache
