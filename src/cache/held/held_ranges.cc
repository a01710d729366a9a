#include "cache/held/held_ranges.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "cache/held/blocks.h"

namespace forebay::cache {

using base::MutexLock;

namespace {

// Ranges up to this size are read and checked before they are sent.
constexpr uint64_t kCopiedBytes = 32u << 10;
// A list is rewritten when it is longer than kListLeast plus this many times its length at the last
// rewrite.
constexpr uint64_t kListTimes = 2;
constexpr uint64_t kListLeast = 256u << 10;  // bytes

std::vector<uint32_t> checks(uint64_t offset, Bytes bytes) {
  std::vector<uint32_t> crc32cs;
  while (!bytes.empty()) {
    const size_t step = std::min<size_t>(bytes.size(), kCheckBytes - offset % kCheckBytes);
    crc32cs.push_back(base::crc32c(bytes.first(step)));
    offset += step;
    bytes = bytes.subspan(step);
  }
  return crc32cs;
}

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
  ASSIGN_OR_RETURN(tier.files, io::ScratchFiles::open(options.folder, found));
  scratch_[number] = tier.files.get();
  tier.bytes_max = options.bytes_max;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, tier.files->names());
  if (!names.empty()) {
    use_found(number, ExtentList::read(tier.files->list_path()));
    remove_unlisted(number, names);
  }
  shorten_list(number);
  return tier.list == nullptr ? Status(base::Code::kIo, trouble_) : Status();
}

// Skips entries that contradict earlier ones.
void HeldRanges::use_found(uint8_t number, const std::vector<ExtentList::Entry>& entries) {
  Tier& tier = tiers_[number];
  for (const ExtentList::Entry& entry : entries) {
    Extents& extents = files_[entry.file];
    const auto at = extents.find(entry.offset);
    if (at != extents.end() && at->second.tier == number) extents.erase(at);
    if (entry.length == 0) continue;
    auto next = extents.lower_bound(entry.offset);
    if (next != extents.end() && next->first < entry.offset + entry.length) continue;
    if (next != extents.begin() &&
        std::prev(next)->first + std::prev(next)->second.length > entry.offset) {
      continue;
    }
    extents[entry.offset] = {
        .length = entry.length, .tier = number, .is_found = true, .crc32cs = entry.crc32cs};
  }
  for (auto& [file, extents] : files_) {
    uint64_t counted = 0;  // blocks before this one are counted
    for (const auto& [offset, extent] : extents) {
      if (extent.tier != number) continue;
      const Blocks blocks = blocks_of(offset, extent.length);
      tier.held_bytes += (blocks.end - std::max(blocks.begin, counted)) * kBlock;
      counted = blocks.end;
      tier.found.emplace(file, offset);
      stats_.found_bytes += extent.length;
    }
  }
}

// Frees the blocks that no entry of the list covers, and drops extents beyond the tier's limit.
void HeldRanges::remove_unlisted(uint8_t number, const std::vector<std::string>& names) {
  Tier& tier = tiers_[number];
  for (const std::string& name : names) {
    const auto id = base::sha256_from_hex(name);
    const auto found = id ? files_.find(*id) : files_.end();
    uint64_t at = 0;  // blocks before this one are listed or freed
    if (found != files_.end()) {
      for (const auto& [offset, extent] : found->second) {
        if (extent.tier != number) continue;
        const Blocks blocks = blocks_of(offset, extent.length);
        if (blocks.begin > at) {
          tier.files->punch(name, at * kBlock, (blocks.begin - at) * kBlock);
        }
        at = blocks.end;
      }
    }
    if (at == 0) {
      tier.files->remove(name);
    } else {
      tier.files->cut(name, at * kBlock);
    }
  }
  while (tier.held_bytes > tier.bytes_max && !tier.found.empty()) {
    const auto [id, offset] = *tier.found.begin();
    const auto file = files_.find(id);
    drop(file, file->second.find(offset));
  }
}

// The completely written extents that have bytes of the range, in ascending order.
std::vector<HeldRanges::Placed> HeldRanges::placed_in(const FileId& file, uint64_t offset,
                                                      uint64_t length) const {
  std::vector<Placed> placed;
  MutexLock lock(mutex_);
  const auto found = files_.find(file);
  if (found == files_.end()) return placed;
  const Extents& extents = found->second;
  auto at = extents.upper_bound(offset);
  if (at != extents.begin()) --at;
  for (; at != extents.end() && at->first < offset + length; ++at) {
    if (at->first + at->second.length <= offset || at->second.crc32cs.empty()) continue;
    placed.push_back({at->first, at->second});
  }
  return placed;
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
    for (const Placed& placed : placed_in(file, range.offset, range.out.size())) {
      if (!read_extent(file, placed, range, hits)) continue;
      miss(range, at, placed.offset);
      at = placed.offset + placed.extent.length;
    }
    miss(range, at, range.offset + range.out.size());
  }
  return missing;
}

// Reads the wanted bytes of the extent. False if they are not what was written.
bool HeldRanges::read_extent(const FileId& file, const Placed& placed, const io::Range& wanted,
                             TierBytes* hits) {
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
bool HeldRanges::read_checked(const FileId& file, const Placed& placed, uint64_t offset,
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
    for (const Placed& placed : placed_in(file, range.offset, range.length)) {
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
bool HeldRanges::find_piece(const FileId& file, const Placed& placed, uint64_t begin, uint64_t end,
                            io::serve::HeldRange* held) {
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
void HeldRanges::note_damage(const FileId& file, const Placed& placed, const Status& status) {
  MutexLock lock(mutex_);
  const auto found = files_.find(file);
  if (found == files_.end()) return;
  const auto at = found->second.find(placed.offset);
  if (at == found->second.end() || at->second.crc32cs != placed.extent.crc32cs ||
      at->second.tier != placed.extent.tier) {
    return;
  }
  ++stats_.damaged;
  if (!status.ok()) trouble_ = status.message();
  drop(found, at);
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

std::vector<HeldRanges::Gap> HeldRanges::gaps(const FileId& file, uint64_t offset,
                                              uint64_t length) const {
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
    offset = held_end;
  }
  if (offset < end) gaps.push_back({offset, end - offset});
  return gaps;
}

void HeldRanges::fill(const FileId& file, const Gap& gap, Bytes bytes, io::Again again) {
  const auto number = begin_extent(file, gap, again);
  if (!number) return;
  const Status status = scratch_[*number]->write(base::to_hex(file), gap.offset, bytes);
  std::vector<uint32_t> crc32cs = checks(gap.offset, bytes);
  MutexLock lock(mutex_);
  const auto found = files_.find(file);
  const auto extent = found->second.find(gap.offset);
  Tier& tier = tiers_[*number];
  if (!status.ok()) {
    drop(found, extent);
    return give_up(tier, status);
  }
  write_down(tier, {.file = file,
                    .offset = gap.offset,
                    .length = static_cast<uint32_t>(gap.length),
                    .crc32cs = crc32cs});
  extent->second.crc32cs = std::move(crc32cs);
  if (again == io::Again::kLater) {
    set_worth(file, gap.offset, extent->second, false, blocks_in_extent(gap.offset, gap.length));
  }
  if (tier.list->bytes() > kListLeast + kListTimes * tier.list_bytes) shorten_list(*number);
}

// Reserves room for an extent, in memory first, and returns its tier. Nothing if there is no room,
// or another thread keeps these bytes already.
std::optional<uint8_t> HeldRanges::begin_extent(const FileId& file, const Gap& gap,
                                                io::Again again) {
  MutexLock lock(mutex_);
  for (const bool others_may_go : {false, true}) {
    for (uint8_t number = 0; number < tiers_.size(); ++number) {
      Tier& tier = tiers_[number];
      if (tier.files == nullptr) continue;
      uint64_t cost = own_blocks(files_[file], number, gap.offset, gap.length).bytes();
      if (!has_room(tier, cost)) {
        // make_room() may drop the two neighbours that share a block with it, which then counts as
        // its own.
        if (!others_may_go || !make_room(number, cost + 2 * kBlock, again)) continue;
        cost = own_blocks(files_[file], number, gap.offset, gap.length).bytes();
      }
      Extents& extents = files_[file];
      const auto next = extents.lower_bound(gap.offset);
      const bool overlaps = (next != extents.end() && next->first < gap.offset + gap.length) ||
                            (next != extents.begin() &&
                             std::prev(next)->first + std::prev(next)->second.length > gap.offset);
      if (overlaps) return std::nullopt;
      extents[gap.offset] = {.length = static_cast<uint32_t>(gap.length), .tier = number};
      tier.held_bytes += cost;
      return number;
    }
  }
  stats_.refused_bytes += gap.length;
  return std::nullopt;
}

// Frees the blocks under the lock, because another thread may begin to write into blocks beside
// them.
void HeldRanges::drop(Files::iterator file, Extents::iterator extent) {
  const auto [offset, dropped] = *extent;
  Tier& tier = tiers_[dropped.tier];
  const Blocks own = own_blocks(file->second, dropped.tier, offset, dropped.length);
  set_worth(file->first, offset, extent->second, false, 0);
  file->second.erase(extent);
  const bool is_left = std::ranges::any_of(
      file->second, [&](const auto& other) { return other.second.tier == dropped.tier; });
  const std::string name = base::to_hex(file->first);
  if (!dropped.crc32cs.empty() && tier.list != nullptr) {
    write_down(tier, {.file = file->first, .offset = offset});
  }
  if (!is_left) {
    tier.files->remove(name);
  } else if (own.begin < own.end && !tier.files->punch(name, own.begin * kBlock, own.bytes())) {
    return;
  }
  tier.held_bytes -= own.bytes();
}

void HeldRanges::write_down(Tier& tier, const ExtentList::Entry& entry) {
  if (const Status status = tier.list->add(entry); !status.ok()) give_up(tier, status);
}

void HeldRanges::shorten_list(uint8_t number) {
  Tier& tier = tiers_[number];
  std::vector<ExtentList::Entry> entries;
  for (const auto& [file, extents] : files_) {
    for (const auto& [offset, extent] : extents) {
      if (extent.tier != number || extent.crc32cs.empty()) continue;
      entries.push_back(
          {.file = file, .offset = offset, .length = extent.length, .crc32cs = extent.crc32cs});
    }
  }
  auto list = ExtentList::begin(tier.files->list_path(), entries);
  if (!list) return give_up(tier, list.error());
  tier.list = std::move(*list);
  tier.list_bytes = tier.list->bytes();
}

// A full disk keeps what it has, but nothing more is written to it.
void HeldRanges::give_up(Tier& tier, const Status& why) {
  tier.bytes_max = std::min(tier.bytes_max, tier.held_bytes);
  trouble_ = fmt::format("{}; nothing more is kept there", why.message());
}

void HeldRanges::forget(const FileId& file, uint64_t offset, uint64_t length) {
  MutexLock lock(mutex_);
  const auto found = files_.find(file);
  if (found == files_.end()) return;
  Extents& extents = found->second;
  auto at = extents.upper_bound(offset);
  if (at != extents.begin()) --at;
  while (at != extents.end() && at->first < offset + length) {
    const auto next = std::next(at);
    const bool overlaps = at->first + at->second.length > offset;
    if (overlaps && !at->second.crc32cs.empty()) drop(found, at);
    at = next;
  }
}

void HeldRanges::stay() {
  for (io::ScratchFiles* const files : scratch_) {
    if (files != nullptr) files->stay();
  }
}

void HeldRanges::stay_on_disk() {
  if (scratch_[1] != nullptr) scratch_[1]->stay();
}

HeldStats HeldRanges::stats() const {
  MutexLock lock(mutex_);
  HeldStats stats = stats_;
  stats.held = {.memory = tiers_[0].held_bytes, .disk = tiers_[1].held_bytes};
  return stats;
}

std::string HeldRanges::trouble() const {
  MutexLock lock(mutex_);
  return trouble_;
}

}  // namespace forebay::cache
