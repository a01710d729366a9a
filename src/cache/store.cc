#include "cache/store.h"

#include <algorithm>
#include <cstring>

namespace forebay::cache {

using base::MutexLock;

namespace {

// Ranges are kept in pieces that end at multiples of this, because a piece is read and checked as a
// whole. Each takes some 100 bytes of memory.
constexpr uint64_t kGrid = 256u << 10;
constexpr uint64_t kBlock = 4096;  // of most file systems

uint64_t first_block(uint64_t offset) { return offset / kBlock; }
uint64_t last_block(uint64_t offset, uint64_t length) { return (offset + length - 1) / kBlock; }

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const TierOptions& memory, const TierOptions& disk) {
  std::unique_ptr<Store> store(new Store);
  const std::array<const TierOptions*, 2> tiers = {&memory, &disk};
  for (size_t i = 0; i < tiers.size(); ++i) {
    if (tiers[i]->bytes_max == 0) continue;
    ASSIGN_OR_RETURN(store->scratch_[i], io::ScratchFiles::open(tiers[i]->folder));
    MutexLock lock(store->mutex_);
    store->bytes_max_[i] = tiers[i]->bytes_max;
  }
  return store;
}

// The good extents that have bytes of the range, in ascending order.
std::vector<Store::Placed> Store::placed_in(const FileId& file, const io::Range& range) const {
  std::vector<Placed> placed;
  const uint64_t end = range.offset + range.out.size();
  MutexLock lock(mutex_);
  const auto found = files_.find(file);
  if (found == files_.end()) return placed;
  const Extents& extents = found->second;
  auto at = extents.upper_bound(range.offset);
  if (at != extents.begin()) --at;
  for (; at != extents.end() && at->first < end; ++at) {
    if (at->first + at->second.length <= range.offset || at->second.is_bad) continue;
    placed.push_back({at->first, at->second});
  }
  return placed;
}

std::vector<io::Range> Store::read(const FileId& file, const std::vector<io::Range>& ranges,
                                   TierBytes* hits) {
  std::vector<io::Range> missing;
  const auto miss = [&](const io::Range& range, uint64_t begin, uint64_t end) {
    if (begin < end) {
      missing.push_back({begin, range.out.subspan(begin - range.offset, end - begin)});
    }
  };
  for (const io::Range& range : ranges) {
    uint64_t at = range.offset;  // filled or missed up to here
    for (const Placed& placed : placed_in(file, range)) {
      if (!read_extent(file, placed, range, hits)) continue;
      miss(range, at, placed.offset);
      at = placed.offset + placed.extent.length;
    }
    miss(range, at, range.offset + range.out.size());
  }
  return missing;
}

// Reads the extent's bytes that are wanted. False where they are not what was written.
bool Store::read_extent(const FileId& file, const Placed& placed, const io::Range& wanted,
                        TierBytes* hits) {
  static thread_local base::ByteVector buffer;
  const Extent& extent = placed.extent;
  const uint64_t begin = std::max(placed.offset, wanted.offset);
  const uint64_t end = std::min(placed.offset + extent.length, wanted.offset + wanted.out.size());
  const base::MutableBytes out = wanted.out.subspan(begin - wanted.offset, end - begin);
  const bool is_whole = out.size() == extent.length;
  if (!is_whole) buffer.resize(extent.length);
  const base::MutableBytes data = is_whole ? out : base::MutableBytes(buffer);
  const Status status = scratch_[extent.tier]->read(base::to_hex(file), placed.offset, data);
  if (!status.ok() || base::crc32c(data) != extent.crc32c) {
    forget(file, placed.offset, extent.length);
    MutexLock lock(mutex_);
    ++damaged_;
    if (!status.ok()) trouble_ = status.message();
    return false;
  }
  if (!is_whole) std::memcpy(out.data(), buffer.data() + (begin - placed.offset), out.size());
  (extent.tier == 0 ? hits->memory : hits->disk) += out.size();
  return true;
}

void Store::keep(const FileId& file, uint64_t offset, Bytes bytes) {
  while (!bytes.empty()) {
    const size_t step = std::min<size_t>(bytes.size(), kGrid - offset % kGrid);
    for (const Gap& gap : gaps(file, offset, step)) {
      fill(file, gap, bytes.subspan(gap.offset - offset, gap.length));
    }
    offset += step;
    bytes = bytes.subspan(step);
  }
}

std::vector<Store::Gap> Store::gaps(const FileId& file, uint64_t offset, uint64_t length) const {
  std::vector<Gap> gaps;
  const uint64_t end = offset + length;
  MutexLock lock(mutex_);
  const auto found = files_.find(file);
  if (found == files_.end()) return {{offset, length}};
  auto at = found->second.upper_bound(offset);
  if (at != found->second.begin()) --at;
  for (; at != found->second.end() && at->first < end; ++at) {
    const uint64_t held_end = at->first + at->second.length;
    if (held_end <= offset) continue;
    if (at->first > offset) gaps.push_back({offset, at->first - offset});
    if (at->second.is_bad && at->first >= offset && held_end <= end) {
      gaps.push_back({at->first, at->second.length, at->second.tier});
    }
    offset = held_end;
  }
  if (offset < end) gaps.push_back({offset, end - offset});
  return gaps;
}

// The first tier with room, and the bytes that the extent takes there beside its neighbours.
std::optional<uint8_t> Store::tier_with_room(const Extents& extents, uint64_t offset,
                                             uint64_t length, uint64_t* cost) const {
  const auto next = extents.lower_bound(offset);
  for (uint8_t tier = 0; tier < held_bytes_.size(); ++tier) {
    uint64_t blocks = last_block(offset, length) - first_block(offset) + 1;
    if (next != extents.begin()) {
      const auto& [begin, before] = *std::prev(next);
      const bool shares = last_block(begin, before.length) == first_block(offset);
      if (before.tier == tier && shares) --blocks;
    }
    if (next != extents.end() && next->second.tier == tier && blocks > 0 &&
        first_block(next->first) == last_block(offset, length)) {
      --blocks;
    }
    *cost = blocks * kBlock;
    if (held_bytes_[tier] + *cost <= bytes_max_[tier]) return tier;
  }
  return std::nullopt;
}

void Store::fill(const FileId& file, const Gap& gap, Bytes bytes) {
  std::optional<uint8_t> tier = gap.damaged_in;
  uint64_t cost = 0;
  if (!tier) {
    MutexLock lock(mutex_);
    tier = tier_with_room(files_[file], gap.offset, gap.length, &cost);
    if (!tier) {
      refused_bytes_ += gap.length;
      return;
    }
    held_bytes_[*tier] += cost;
  }
  const Status status = scratch_[*tier]->write(base::to_hex(file), gap.offset, bytes);
  const uint32_t crc32c = base::crc32c(bytes);
  MutexLock lock(mutex_);
  if (!status.ok()) return give_up(*tier, cost, status);
  Extents& extents = files_[file];
  if (gap.damaged_in) {
    extents[gap.offset].crc32c = crc32c;
    extents[gap.offset].is_bad = false;
  } else if (overlaps(extents, gap.offset, gap.length)) {
    held_bytes_[*tier] -= cost;  // somebody kept some of these bytes meanwhile
  } else {
    extents[gap.offset] = {
        .length = static_cast<uint32_t>(gap.length), .crc32c = crc32c, .tier = *tier};
  }
}

bool Store::overlaps(const Extents& extents, uint64_t offset, uint64_t length) {
  const auto next = extents.lower_bound(offset);
  if (next != extents.end() && next->first < offset + length) return true;
  return next != extents.begin() &&
         std::prev(next)->first + std::prev(next)->second.length > offset;
}

// A disk that is full keeps what it has; nothing more is written to it.
void Store::give_up(uint8_t tier, uint64_t cost, const Status& why) {
  held_bytes_[tier] -= cost;
  bytes_max_[tier] = std::min(bytes_max_[tier], held_bytes_[tier]);
  trouble_ = fmt::format("{}; nothing more is kept there", why.message());
}

void Store::forget(const FileId& file, uint64_t offset, uint64_t length) {
  MutexLock lock(mutex_);
  const auto found = files_.find(file);
  if (found == files_.end()) return;
  Extents& extents = found->second;
  auto at = extents.upper_bound(offset);
  if (at != extents.begin()) --at;
  for (; at != extents.end() && at->first < offset + length; ++at) {
    if (at->first + at->second.length > offset) at->second.is_bad = true;
  }
}

StoreStats Store::stats() const {
  MutexLock lock(mutex_);
  return {.held = {.memory = held_bytes_[0], .disk = held_bytes_[1]},
          .refused_bytes = refused_bytes_,
          .damaged = damaged_};
}

std::string Store::trouble() const {
  MutexLock lock(mutex_);
  return trouble_;
}

}  // namespace forebay::cache
