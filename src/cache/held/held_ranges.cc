#include "cache/held/held_ranges.h"

#include <algorithm>
#include <cstring>

namespace forebay::cache {

using base::MutexLock;

namespace {

// Ranges up to this size are read and checked before they are sent.
constexpr uint64_t kCopiedBytes = 32u << 10;
// What an earlier process left may be dropped when this many times as many bytes were read: unless
// the dataset is much larger, its epochs have read everything that is still needed by then.
constexpr uint64_t kFoundTimes = 4;

}  // namespace

Result<std::unique_ptr<HeldRanges>> HeldRanges::open(const TierOptions& memory,
                                                     const TierOptions& disk, io::Found found) {
  std::unique_ptr<HeldRanges> store(new HeldRanges);
  RETURN_IF_ERROR(store->open_tier(0, memory, found));
  RETURN_IF_ERROR(store->open_tier(1, disk, found));
  return store;
}

Status HeldRanges::open_tier(uint8_t number, const TierOptions& options, io::Found found) {
  if (options.bytes_max == 0) return {};
  MutexLock lock(mutex_);
  Tier& tier = tiers_[number];
  RETURN_IF_ERROR(tier.open(options, found));
  scratch_[number] = &tier.files();
  ASSIGN_OR_RETURN(const std::vector<std::string> names, tier.files().names());
  if (!names.empty()) {
    use_found(number, tier.read_list());
    remove_unlisted(number, names);
  }
  begin_list(number);
  return tier.has_list() ? Status() : Status(base::Code::kIo, trouble_);
}

// Skips entries that contradict earlier ones.
void HeldRanges::use_found(uint8_t number, const std::vector<ExtentList::Entry>& entries) {
  Tier& tier = tiers_[number];
  for (const ExtentList::Entry& entry : entries) {
    const Extent* const before = extents_.find(entry.file, entry.offset);
    if (before != nullptr && before->tier == number) extents_.remove(entry.file, entry.offset);
    if (entry.length == 0) continue;
    extents_.add(entry.file, entry.offset,
                 {.length = entry.length, .tier = number, .crc32cs = entry.crc32cs});
  }
  for (const auto& [file, extents] : extents_.files()) {
    uint64_t counted = 0;  // blocks before this one are counted
    for (const auto& [offset, extent] : extents) {
      if (extent.tier != number) continue;
      const Blocks blocks = blocks_of(offset, extent.length);
      tier.take((blocks.end - std::max(blocks.begin, counted)) * kBlock);
      counted = blocks.end;
      tier.set_worth(file, offset, *extents_.find(file, offset), true, 0);
      stats_.found_bytes += extent.length;
    }
  }
}

// Frees the blocks that no entry of the list covers, and drops extents beyond the tier's limit.
void HeldRanges::remove_unlisted(uint8_t number, const std::vector<std::string>& names) {
  Tier& tier = tiers_[number];
  const auto& files = extents_.files();
  for (const std::string& name : names) {
    const auto id = base::sha256_from_hex(name);
    const auto found = id ? files.find(*id) : files.end();
    uint64_t at = 0;  // blocks before this one are listed or freed
    if (found != files.end()) {
      for (const auto& [offset, extent] : found->second) {
        if (extent.tier != number) continue;
        const Blocks blocks = blocks_of(offset, extent.length);
        if (blocks.begin > at) {
          tier.files().punch(name, at * kBlock, (blocks.begin - at) * kBlock);
        }
        at = blocks.end;
      }
    }
    if (at == 0) {
      tier.files().remove(name);
    } else {
      tier.files().cut(name, at * kBlock);
    }
  }
  while (tier.is_over_full()) {
    const auto first = tier.first_to_drop(true, false);
    if (!first) break;
    drop(first->file, first->offset);
  }
}

std::vector<PlacedExtent> HeldRanges::written(const FileId& file, uint64_t offset,
                                              uint64_t length) {
  MutexLock lock(mutex_);
  std::vector<PlacedExtent> copies;
  for (const auto& [at, extent] : extents_.find_written(file, offset, length)) {
    copies.push_back({at, *extent});
  }
  return copies;
}

std::vector<io::Range> HeldRanges::read(const FileId& file, const std::vector<io::Range>& ranges,
                                        TierBytes* hits) {
  std::vector<WantedRange> wanted;
  for (const io::Range& range : ranges) {
    wanted.push_back({range.offset, range.out.size(), range.again});
  }
  mark(file, wanted);
  return read_marked(file, ranges, hits);
}

std::vector<io::Range> HeldRanges::read_marked(const FileId& file,
                                               const std::vector<io::Range>& ranges,
                                               TierBytes* hits) {
  std::vector<io::Range> missing;
  const auto miss = [&](const io::Range& range, uint64_t begin, uint64_t end) {
    if (begin < end) {
      missing.push_back({begin, range.out.subspan(begin - range.offset, end - begin), range.again});
    }
  };
  for (const io::Range& range : ranges) {
    uint64_t at = range.offset;  // filled or missed up to here
    for (const PlacedExtent& placed : written(file, range.offset, range.out.size())) {
      if (!read_extent(file, placed, range, hits)) continue;
      miss(range, at, placed.offset);
      at = placed.offset + placed.extent.length;
    }
    miss(range, at, range.offset + range.out.size());
  }
  return missing;
}

// Reads the wanted bytes of the extent. False if they are not what was written.
bool HeldRanges::read_extent(const FileId& file, const PlacedExtent& placed,
                             const io::Range& wanted, TierBytes* hits) {
  static thread_local base::ByteVector buffer;
  const uint64_t extent_end = placed.offset + placed.extent.length;
  const uint64_t begin = std::max(placed.offset, wanted.offset);
  const uint64_t end = std::min(extent_end, wanted.offset + wanted.out.size());
  const base::MutableBytes out = wanted.out.subspan(begin - wanted.offset, end - begin);
  const uint64_t first = std::max(placed.offset, begin / kCheckBytes * kCheckBytes);
  const uint64_t last = std::min(extent_end, base::round_up(end, kCheckBytes));
  const bool is_whole = first == begin && last == end;
  if (!is_whole) buffer.resize(last - first);
  if (!read_checked(file, placed, first, is_whole ? out : base::MutableBytes(buffer))) return false;
  if (!is_whole) std::memcpy(out.data(), buffer.data() + (begin - first), out.size());
  (placed.extent.tier == 0 ? hits->memory : hits->disk) += out.size();
  return true;
}

// Reads whole parts of the extent, and checks them.
bool HeldRanges::read_checked(const FileId& file, const PlacedExtent& placed, uint64_t offset,
                              base::MutableBytes out) {
  const Extent& extent = placed.extent;
  const Status status = scratch_[extent.tier]->read(base::to_hex(file), offset, out);
  bool is_good = status.ok();
  size_t part = offset / kCheckBytes - placed.offset / kCheckBytes;
  for (Bytes rest = out; is_good && !rest.empty(); ++part) {
    const auto step =
        static_cast<size_t>(std::min<uint64_t>(rest.size(), kCheckBytes - offset % kCheckBytes));
    is_good = base::crc32c(rest.first(step)) == extent.crc32cs[part];
    offset += step;
    rest = rest.subspan(step);
  }
  if (!is_good) note_damage(file, placed, status);
  return is_good;
}

std::optional<std::vector<io::serve::HeldRange>> HeldRanges::find(
    const FileId& file, const std::vector<WantedRange>& ranges, TierBytes* hits) {
  std::vector<io::serve::HeldRange> found;
  *hits = {};
  mark(file, ranges);
  for (const WantedRange& range : ranges) {
    io::serve::HeldRange held;
    if (range.length <= kCopiedBytes) {
      base::ByteVector bytes(range.length);
      if (!read_marked(file, {{range.offset, bytes}}, hits).empty()) return std::nullopt;
      held.crc32c = base::crc32c(bytes);
      held.pieces.push_back({.bytes = std::move(bytes)});
      found.push_back(std::move(held));
      continue;
    }
    uint64_t at = range.offset;  // found up to here
    const uint64_t end = range.offset + range.length;
    for (const PlacedExtent& placed : written(file, range.offset, range.length)) {
      const uint64_t until = std::min(end, placed.offset + placed.extent.length);
      if (placed.offset > at || !find_piece(file, placed, at, until, &held)) return std::nullopt;
      (placed.extent.tier == 0 ? hits->memory : hits->disk) += until - at;
      at = until;
    }
    if (at < end) return std::nullopt;
    found.push_back(std::move(held));
  }
  return found;
}

// Adds the bytes [begin, end) of the extent, and their checksum, for which parts at the ends may
// have to be read.
bool HeldRanges::find_piece(const FileId& file, const PlacedExtent& placed, uint64_t begin,
                            uint64_t end, io::serve::HeldRange* held) {
  const auto opened = scratch_[placed.extent.tier]->file(base::to_hex(file));
  if (!opened) return false;
  auto& pieces = held->pieces;
  if (!pieces.empty() && pieces.back().file == *opened) {
    pieces.back().length += end - begin;  // the pieces are adjacent
  } else {
    pieces.push_back({*opened, begin, end - begin});
  }
  static const base::Crc32cJoin join_whole(kCheckBytes);
  const uint64_t extent_end = placed.offset + placed.extent.length;
  while (begin < end) {
    const uint64_t first = std::max(placed.offset, begin / kCheckBytes * kCheckBytes);
    const uint64_t last = std::min(extent_end, (begin / kCheckBytes + 1) * kCheckBytes);
    const uint64_t until = std::min(end, last);
    uint32_t crc32c = placed.extent.crc32cs[begin / kCheckBytes - placed.offset / kCheckBytes];
    if (first != begin || last != until) {
      std::array<uint8_t, kCheckBytes> part;
      const auto whole = base::MutableBytes(part).first(last - first);
      if (!read_checked(file, placed, first, whole)) return false;
      crc32c = base::crc32c(whole.subspan(begin - first, until - begin));
    }
    const uint64_t length = until - begin;
    held->crc32c = length == kCheckBytes ? join_whole(held->crc32c, crc32c)
                                         : base::Crc32cJoin(length)(held->crc32c, crc32c);
    begin = until;
  }
  return true;
}

// An extent that was dropped while it was read is not damaged.
void HeldRanges::note_damage(const FileId& file, const PlacedExtent& placed, const Status& status) {
  MutexLock lock(mutex_);
  const Extent* const extent = extents_.find(file, placed.offset);
  if (extent == nullptr || extent->crc32cs != placed.extent.crc32cs ||
      extent->tier != placed.extent.tier) {
    return;
  }
  ++stats_.damaged;
  if (!status.ok()) trouble_ = status.message();
  drop(file, placed.offset);
}

// Notes when the blocks that are read are needed again. A block is needed soon if any of its bytes
// is; therefore the ranges that are needed soon come last.
void HeldRanges::mark(const FileId& file, std::span<const WantedRange> ranges) {
  MutexLock lock(mutex_);
  asked_bytes_ += io::serve::bytes_of(ranges);
  for (const io::Again again : {io::Again::kLater, io::Again::kSoon}) {
    for (const WantedRange& range : ranges) {
      if (range.again != again) continue;
      const uint64_t range_end = range.offset + range.length;
      for (const auto& [offset, extent] : extents_.find_written(file, range.offset, range.length)) {
        const uint64_t begin = std::max(offset, range.offset);
        const uint64_t end = std::min(offset + extent->length, range_end);
        const uint64_t blocks = blocks_in_extent(begin, end - begin);
        tiers_[extent->tier].set_worth(
            file, offset, *extent, false,
            again == io::Again::kLater ? extent->later | blocks : extent->later & ~blocks);
      }
    }
  }
}

void HeldRanges::keep(const FileId& file, uint64_t offset, Bytes bytes, io::Again again) {
  while (!bytes.empty()) {
    const size_t step = std::min<size_t>(bytes.size(), kExtentBytes - offset % kExtentBytes);
    for (const Gap& gap : gaps(file, offset, step)) {
      fill(file, gap, bytes.subspan(gap.offset - offset, gap.length), again);
    }
    offset += step;
    bytes = bytes.subspan(step);
  }
}

std::vector<Gap> HeldRanges::gaps(const FileId& file, uint64_t offset, uint64_t length) const {
  MutexLock lock(mutex_);
  return extents_.gaps(file, offset, length);
}

void HeldRanges::fill(const FileId& file, const Gap& gap, Bytes bytes, io::Again again) {
  const auto number = begin_extent(file, gap, again);
  if (!number) return;
  const Status status = scratch_[*number]->write(base::to_hex(file), gap.offset, bytes);
  std::vector<uint32_t> crc32cs = checksums_of(gap.offset, bytes);
  MutexLock lock(mutex_);
  Tier& tier = tiers_[*number];
  if (!status.ok()) {
    drop(file, gap.offset);
    return give_up(tier, status);
  }
  write_down(tier, {.file = file,
                    .offset = gap.offset,
                    .length = static_cast<uint32_t>(gap.length),
                    .crc32cs = crc32cs});
  Extent& extent = *extents_.find(file, gap.offset);
  extent.crc32cs = std::move(crc32cs);
  if (again == io::Again::kLater) {
    tier.set_worth(file, gap.offset, extent, false, blocks_in_extent(gap.offset, gap.length));
  }
  if (tier.is_list_long()) begin_list(*number);
}

// Reserves room for an extent, in memory first, and returns its tier. Nothing if there is no room,
// or another thread keeps these bytes already.
std::optional<uint8_t> HeldRanges::begin_extent(const FileId& file, const Gap& gap,
                                                io::Again again) {
  MutexLock lock(mutex_);
  for (const bool others_may_go : {false, true}) {
    for (uint8_t number = 0; number < tiers_.size(); ++number) {
      Tier& tier = tiers_[number];
      if (!tier.is_open()) continue;
      uint64_t cost = extents_.own_blocks(file, number, gap.offset, gap.length).bytes();
      if (!tier.has_room(cost)) {
        // make_room() may drop the two neighbours that share a block with it, which then counts as
        // its own.
        if (!others_may_go || !make_room(number, cost + 2 * kBlock, again)) continue;
        cost = extents_.own_blocks(file, number, gap.offset, gap.length).bytes();
      }
      const auto length = static_cast<uint32_t>(gap.length);
      if (!extents_.add(file, gap.offset, {.length = length, .tier = number})) return std::nullopt;
      tier.take(cost);
      return number;
    }
  }
  stats_.refused_bytes += gap.length;
  return std::nullopt;
}

// Drops bytes that are worth less than bytes that are needed at `again`, until there is room.
bool HeldRanges::make_room(uint8_t number, uint64_t bytes, io::Again again) {
  Tier& tier = tiers_[number];
  if (tier.is_too_small_for(bytes)) return false;
  while (!tier.has_room(bytes)) {
    const bool found_may_go = asked_bytes_ >= kFoundTimes * stats_.found_bytes;
    const auto first = tier.first_to_drop(found_may_go, again == io::Again::kSoon);
    if (!first) return false;
    if (first->is_found) {
      stats_.dropped_bytes += extents_.find(first->file, first->offset)->length;
      drop(first->file, first->offset);
    } else {
      drop_later(first->file, first->offset);
    }
  }
  return true;
}

// Frees the blocks under the lock, because another thread may begin to write into blocks beside
// them.
void HeldRanges::drop(const FileId& file, uint64_t offset) {
  Extent& extent = *extents_.find(file, offset);
  Tier& tier = tiers_[extent.tier];
  const Blocks own = extents_.own_blocks(file, extent.tier, offset, extent.length);
  tier.set_worth(file, offset, extent, false, 0);
  const Extent dropped = extents_.remove(file, offset);
  const std::string name = base::to_hex(file);
  if (dropped.is_written() && tier.has_list()) write_down(tier, {.file = file, .offset = offset});
  if (!extents_.has_any(file, dropped.tier)) {
    tier.files().remove(name);
  } else if (own.begin < own.end && !tier.files().punch(name, own.begin * kBlock, own.bytes())) {
    return;
  }
  tier.give_back(own.bytes());
}

// Drops those blocks of an extent that are needed later.
void HeldRanges::drop_later(const FileId& file, uint64_t offset) {
  Extent& extent = *extents_.find(file, offset);
  Tier& tier = tiers_[extent.tier];
  const uint64_t later = extent.later;
  tier.set_worth(file, offset, extent, false, 0);
  extent.later = later;
  const std::vector<PlacedExtent> pieces = extents_.cut(file, offset);
  for (const PlacedExtent& piece : pieces) {
    if (piece.extent.later == 0) continue;
    stats_.dropped_bytes += piece.extent.length;
    drop(file, piece.offset);
  }
  // Only now, because a reader of the list skips overlapping entries.
  for (const auto& [at, piece] : pieces) {
    if (piece.later == 0) write_down(tier, {file, at, piece.length, piece.crc32cs});
  }
}

void HeldRanges::write_down(Tier& tier, const ExtentList::Entry& entry) {
  if (const Status status = tier.write_down(entry); !status.ok()) give_up(tier, status);
}

void HeldRanges::begin_list(uint8_t number) {
  Tier& tier = tiers_[number];
  const Status status = tier.begin_list(extents_.listed(number));
  if (!status.ok()) give_up(tier, status);
}

// A full disk keeps what it has, but nothing more is written to it.
void HeldRanges::give_up(Tier& tier, const Status& why) {
  tier.freeze();
  trouble_ = fmt::format("{}; nothing more is kept there", why.message());
}

void HeldRanges::forget(const FileId& file, uint64_t offset, uint64_t length) {
  MutexLock lock(mutex_);
  for (const auto& [at, extent] : extents_.find_written(file, offset, length)) drop(file, at);
}

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
  for (const Tier& tier : tiers_) bytes += tier.is_open() ? tier.free_bytes() : 0;
  return bytes;
}

void HeldRanges::stay() {
  for (io::ScratchFiles* const files : scratch_) {
    if (files != nullptr) files->stay();
  }
}

HeldStats HeldRanges::stats() const {
  MutexLock lock(mutex_);
  HeldStats stats = stats_;
  stats.held = {.memory = tiers_[0].held_bytes(), .disk = tiers_[1].held_bytes()};
  return stats;
}

std::string HeldRanges::trouble() const {
  MutexLock lock(mutex_);
  return trouble_;
}

}  // namespace forebay::cache
