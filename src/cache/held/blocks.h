// The file-system blocks that the extents of a file take; neighbouring extents may share a block.
#pragma once

#include <cstdint>

#include "cache/held/extent_list.h"

namespace forebay::cache {

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

// The blocks of [offset, offset + length) in which no other extent of this tier has bytes.
template <class Extents>
Blocks own_blocks(const Extents& extents, uint8_t tier, uint64_t offset, uint64_t length) {
  Blocks own = blocks_of(offset, length);
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

}  // namespace forebay::cache
