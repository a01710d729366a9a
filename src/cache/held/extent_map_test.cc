#include "cache/held/extent_map.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace forebay::cache {
namespace {

constexpr uint64_t kSize = 16 * kBlock;

Extent extent_of(uint64_t offset, uint32_t length, uint8_t tier) {
  return {.length = length,
          .tier = tier,
          .crc32cs = std::vector<uint32_t>(checks_of(offset, length), 1)};
}

// Which extent has each byte, by its offset; -1: none.
std::vector<int64_t> owners(const ExtentMap& map, const FileId& file) {
  std::vector<int64_t> out(kSize, -1);
  for (const auto& [offset, extent] : map.files().at(file)) {
    for (uint64_t at = offset; at < offset + extent.length; ++at) {
      EXPECT_EQ(out[at], -1) << "two extents have the byte";
      out[at] = static_cast<int64_t>(offset);
    }
  }
  return out;
}

TEST(ExtentMap, GapsAndOwnBlocksAreThoseOfAMapOfBytes) {
  base::Random random(7, base::Purpose::kTest);
  const FileId file{};
  for (int round = 0; round < 50; ++round) {
    ExtentMap map;
    map.add(file, 0, extent_of(0, 1, 0));
    for (int step = 0; step < 20; ++step) {
      const uint64_t offset = random.below(kSize - 1);
      const auto length = static_cast<uint32_t>(1 + random.below(kSize - offset));
      const auto tier = static_cast<uint8_t>(random.below(2));
      const std::vector<int64_t> before = owners(map, file);
      uint64_t missing = 0;
      for (const Gap& gap : map.gaps(file, offset, length)) {
        missing += gap.length;
        for (uint64_t at = gap.offset; at < gap.offset + gap.length; ++at) {
          EXPECT_EQ(before[at], -1);
        }
      }
      const auto range = std::span(before).subspan(offset, length);
      EXPECT_EQ(missing, static_cast<uint64_t>(std::count(range.begin(), range.end(), -1)));
      const bool is_free = missing == length;
      const Blocks own = map.own_blocks(file, tier, offset, length);
      EXPECT_EQ(map.add(file, offset, extent_of(offset, length, tier)), is_free);
      if (!is_free) continue;
      for (uint64_t block = offset / kBlock; block <= (offset + length - 1) / kBlock; ++block) {
        bool is_shared = false;
        for (uint64_t at = block * kBlock; at < std::min(kSize, (block + 1) * kBlock); ++at) {
          const bool is_others = before[at] >= 0;
          is_shared |= is_others && map.find(file, static_cast<uint64_t>(before[at]))->tier == tier;
        }
        EXPECT_EQ(own.begin <= block && block < own.end, !is_shared) << block;
      }
    }
  }
}

TEST(ExtentMap, CutsBetweenBlocksThatAreNeededSoonAndLater) {
  ExtentMap map;
  const FileId file{};
  const uint64_t begin = kBlock + 100;
  const uint64_t end = 6 * kBlock + 7;
  Extent whole = extent_of(begin, static_cast<uint32_t>(end - begin), 1);
  for (size_t part = 0; part < whole.crc32cs.size(); ++part) {
    whole.crc32cs[part] = static_cast<uint32_t>(part);
  }
  whole.later = 0b0110010;  // blocks 1, 4 and 5
  map.add(file, begin, whole);
  const auto pieces = map.cut(file, begin);
  ASSERT_EQ(pieces.size(), 4u);
  const uint64_t begins[] = {begin, 2 * kBlock, 4 * kBlock, 6 * kBlock, end};
  uint32_t part = 0;
  for (size_t piece = 0; piece < pieces.size(); ++piece) {
    EXPECT_EQ(pieces[piece].offset, begins[piece]);
    EXPECT_EQ(pieces[piece].extent.length, begins[piece + 1] - begins[piece]);
    EXPECT_EQ(pieces[piece].extent.later != 0, piece % 2 == 0);
    for (const uint32_t crc32c : pieces[piece].extent.crc32cs) EXPECT_EQ(crc32c, part++);
  }
  EXPECT_EQ(part, 6u);
  EXPECT_TRUE(map.gaps(file, begin, end - begin).empty());
}

}  // namespace
}  // namespace forebay::cache
