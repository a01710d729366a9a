// Which held bytes are dropped for others: bytes that the next epoch does not need, for bytes that
// it needs; and bytes that an earlier process left, if they are not read.
#include <algorithm>
#include <bit>

#include "cache/held/held_ranges.h"

namespace forebay::cache {

using base::MutexLock;

namespace {

// What an earlier process left may be dropped when this many times as many bytes were read: unless
// the dataset is much larger, its epochs have read everything that is still needed by then.
constexpr uint64_t kFoundTimes = 4;

}  // namespace

// Notes when the blocks that are read are needed again. A block is needed soon if any of its bytes
// is; therefore the ranges that are needed soon come last.
void HeldRanges::mark(const FileId& file, std::span<const WantedRange> ranges) {
  MutexLock lock(mutex_);
  asked_bytes_ += io::serve::bytes_of(ranges);
  const auto found = files_.find(file);
  if (found == files_.end()) return;
  Extents& extents = found->second;
  for (const io::Again again : {io::Again::kLater, io::Again::kSoon}) {
    for (const WantedRange& range : ranges) {
      if (range.again != again) continue;
      const uint64_t range_end = range.offset + range.length;
      auto at = extents.upper_bound(range.offset);
      if (at != extents.begin()) --at;
      for (; at != extents.end() && at->first < range_end; ++at) {
        Extent& extent = at->second;
        const uint64_t begin = std::max(at->first, range.offset);
        const uint64_t end = std::min(at->first + extent.length, range_end);
        if (begin >= end || extent.crc32cs.empty()) continue;
        const uint64_t blocks = blocks_in_extent(begin, end - begin);
        set_worth(file, at->first, extent, false,
                  again == io::Again::kLater ? extent.later | blocks : extent.later & ~blocks);
      }
    }
  }
}

void HeldRanges::set_worth(const FileId& file, uint64_t offset, Extent& extent, bool is_found,
                           uint64_t later) {
  Tier& tier = tiers_[extent.tier];
  if (extent.is_found && !is_found) tier.found.erase({file, offset});
  if (extent.later != 0 && later == 0) tier.later.erase({file, offset});
  if (extent.later == 0 && later != 0) tier.later.emplace(file, offset);
  extent.is_found = is_found;
  extent.later = later;
}

bool HeldRanges::has_room(const Tier& tier, uint64_t bytes) {
  return tier.held_bytes + bytes + tier.list->bytes() <= tier.bytes_max;
}

// Drops bytes that are worth less than bytes that are needed at `again`, until there is room.
bool HeldRanges::make_room(uint8_t number, uint64_t bytes, io::Again again) {
  Tier& tier = tiers_[number];
  if (bytes > tier.bytes_max) return false;
  while (!has_room(tier, bytes)) {
    const bool found_may_go = asked_bytes_ >= kFoundTimes * stats_.found_bytes;
    const bool later_may_go = again == io::Again::kSoon;
    const auto* cheap = found_may_go && !tier.found.empty()   ? &tier.found
                        : later_may_go && !tier.later.empty() ? &tier.later
                                                              : nullptr;
    if (cheap == nullptr) return false;
    const auto [id, offset] = *cheap->begin();
    const auto file = files_.find(id);
    const auto extent = file->second.find(offset);
    if (cheap == &tier.later) {
      drop_later(file, extent);
    } else {
      stats_.dropped_bytes += extent->second.length;
      drop(file, extent);
    }
  }
  return true;
}

// Cuts an extent between blocks that are needed soon and blocks that are needed later, and drops
// the latter.
void HeldRanges::drop_later(Files::iterator file, Extents::iterator extent) {
  const auto [offset, whole] = *extent;
  Extents& extents = file->second;
  const uint64_t end = offset + whole.length;
  set_worth(file->first, offset, extent->second, false, 0);
  extents.erase(extent);
  std::vector<uint64_t> dropped;
  std::vector<ExtentList::Entry> kept;
  for (uint64_t at = offset; at < end;) {
    const uint64_t later = whole.later >> (at % kExtentBytes / kCheckBytes);
    const bool is_later = (later & 1) != 0;
    const auto blocks = static_cast<uint64_t>(is_later     ? std::countr_one(later)
                                              : later == 0 ? 64
                                                           : std::countr_zero(later));
    const uint64_t until = std::min(end, (at / kCheckBytes + blocks) * kCheckBytes);
    const auto first =
        whole.crc32cs.begin() + static_cast<ptrdiff_t>(at / kCheckBytes - offset / kCheckBytes);
    const auto checks = static_cast<ptrdiff_t>(checks_of(at, until - at));
    Extent piece{.length = static_cast<uint32_t>(until - at),
                 .tier = whole.tier,
                 .crc32cs = {first, first + checks}};
    if (is_later) {
      stats_.dropped_bytes += piece.length;
      dropped.push_back(at);
    } else {
      kept.push_back({file->first, at, piece.length, piece.crc32cs});
    }
    extents[at] = std::move(piece);
    at = until;
  }
  for (const uint64_t at : dropped) drop(file, extents.find(at));
  // Only now, because a reader of the list skips overlapping entries.
  for (const ExtentList::Entry& entry : kept) write_down(tiers_[whole.tier], entry);
}

}  // namespace forebay::cache
