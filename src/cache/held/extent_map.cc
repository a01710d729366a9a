#include "cache/held/extent_map.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/status.h"

namespace forebay::cache {

Extent* ExtentMap::find(const FileId& file, uint64_t offset) {
  const auto found = files_.find(file);
  if (found == files_.end()) return nullptr;
  const auto at = found->second.find(offset);
  return at == found->second.end() ? nullptr : &at->second;
}

bool ExtentMap::add(const FileId& file, uint64_t offset, Extent extent) {
  Extents& extents = files_[file];
  const auto next = extents.lower_bound(offset);
  if (next != extents.end() && next->first < offset + extent.length) return false;
  if (next != extents.begin() && std::prev(next)->first + std::prev(next)->second.length > offset) {
    return false;
  }
  extents.emplace_hint(next, offset, std::move(extent));
  return true;
}

Extent ExtentMap::remove(const FileId& file, uint64_t offset) {
  const auto found = files_.find(file);
  FOREBAY_CHECK(found != files_.end());
  auto node = found->second.extract(offset);
  FOREBAY_CHECK(!node.empty());
  return std::move(node.mapped());
}

std::vector<PlacedExtent> ExtentMap::cut(const FileId& file, uint64_t offset) {
  const Extent whole = remove(file, offset);
  std::vector<PlacedExtent> pieces;
  const uint64_t end = offset + whole.length;
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
    pieces.push_back({at,
                      {.length = static_cast<uint32_t>(until - at),
                       .tier = whole.tier,
                       .later = is_later ? blocks_in_extent(at, until - at) : 0,
                       .crc32cs = {first, first + checks}}});
    at = until;
  }
  for (const PlacedExtent& piece : pieces) add(file, piece.offset, piece.extent);
  return pieces;
}

std::vector<std::pair<uint64_t, Extent*>> ExtentMap::find_written(const FileId& file,
                                                                  uint64_t offset,
                                                                  uint64_t length) {
  std::vector<std::pair<uint64_t, Extent*>> out;
  const auto found = files_.find(file);
  if (found == files_.end()) return out;
  Extents& extents = found->second;
  for (auto at = first_at(extents, offset); at != extents.end() && at->first < offset + length;
       ++at) {
    const bool overlaps = at->first + at->second.length > offset;
    if (overlaps && at->second.is_written()) out.emplace_back(at->first, &at->second);
  }
  return out;
}

std::vector<Gap> ExtentMap::gaps(const FileId& file, uint64_t offset, uint64_t length) const {
  std::vector<Gap> gaps;
  const uint64_t end = offset + length;
  const auto found = files_.find(file);
  if (found == files_.end()) return {{offset, length}};
  const Extents& extents = found->second;
  for (auto at = first_at(extents, offset); at != extents.end() && at->first < end; ++at) {
    const uint64_t held_end = at->first + at->second.length;
    if (held_end <= offset) continue;
    if (at->first > offset) gaps.push_back({offset, at->first - offset});
    offset = held_end;
  }
  if (offset < end) gaps.push_back({offset, end - offset});
  return gaps;
}

Blocks ExtentMap::own_blocks(const FileId& file, uint8_t tier, uint64_t offset,
                             uint64_t length) const {
  Blocks own = blocks_of(offset, length);
  const auto found = files_.find(file);
  if (found == files_.end()) return own;
  const Extents& extents = found->second;
  for (auto at = extents.lower_bound(offset); at != extents.begin();) {
    --at;
    const bool shares = blocks_of(at->first, at->second.length).end > own.begin;
    if (shares && at->second.tier == tier) ++own.begin;
    if (!shares || at->second.tier == tier) break;
  }
  for (auto at = extents.upper_bound(offset); at != extents.end() && own.begin < own.end; ++at) {
    const bool shares = at->first / kBlock < own.end;
    if (shares && at->second.tier == tier) --own.end;
    if (!shares || at->second.tier == tier) break;
  }
  return own.begin < own.end ? own : Blocks{};
}

bool ExtentMap::has_any(const FileId& file, uint8_t tier) const {
  const auto found = files_.find(file);
  return found != files_.end() &&
         std::ranges::any_of(found->second, [&](const auto& at) { return at.second.tier == tier; });
}

std::vector<ExtentList::Entry> ExtentMap::listed(uint8_t tier) const {
  std::vector<ExtentList::Entry> entries;
  for (const auto& [file, extents] : files_) {
    for (const auto& [offset, extent] : extents) {
      if (extent.tier != tier || !extent.is_written()) continue;
      entries.push_back(
          {.file = file, .offset = offset, .length = extent.length, .crc32cs = extent.crc32cs});
    }
  }
  return entries;
}

}  // namespace forebay::cache
