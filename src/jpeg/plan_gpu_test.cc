// Tests the inputs of decoding on a GPU: bits read through a ring, and the lookups of any table.
#include "jpeg/plan_gpu.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "jpeg/kernels/entropy_gpu.h"

namespace forebay::jpeg::gpu {
namespace {

using base::Purpose;
using base::Random;

// A table with random lengths of codes, of which `long_share` in eight have more than ten bits.
HuffmanTable some_table(Random& random, uint64_t long_share) {
  HuffmanTable table;
  uint32_t room = 1;  // codes of the current length that are left
  for (uint32_t length = 1; length <= 16; ++length) {
    room *= 2;
    const bool wanted = length > 10 ? random.below(8) < long_share : random.below(3) == 0;
    const uint32_t most = std::min({room - 1, 256 - table.count, 255u});
    if (!wanted || most == 0) continue;
    const auto codes = static_cast<uint8_t>(random.below(most + 1));
    table.bits[length - 1] = codes;
    for (uint32_t i = 0; i < codes; ++i) {
      table.values[table.count] = static_cast<uint8_t>(table.count);
      ++table.count;
    }
    room -= codes;
  }
  return table;
}

// Looks the code up by the definition (T.81 figure F.16): length << 8 | symbol, or 0.
uint32_t expected_symbol(const HuffmanTable& table, uint32_t top) {
  uint32_t code = 0;
  uint32_t at = 0;
  for (uint32_t length = 1; length <= 16; ++length, code <<= 1) {
    for (uint32_t i = 0; i < table.bits[length - 1]; ++i, ++code, ++at) {
      if (top >> (16 - length) == code) return table.values[at] | length << 8;
    }
  }
  return 0;
}

TEST(LookupGpu, FindsEverySymbolOfAnyTable) {
  Random random(5, Purpose::kTest);
  size_t late = 0;
  size_t by_length = 0;
  for (int round = 0; round < 60; ++round) {
    const HuffmanTable table = some_table(random, random.below(9));
    const HuffmanLookup lookup = make_lookup(table);
    for (uint32_t top = 0; top < 1 << 16; ++top) {
      const uint32_t expected = expected_symbol(table, top);
      const auto rest = static_cast<uint32_t>(random.below(1 << 16));
      ASSERT_EQ(find_symbol(lookup, top << 16 | rest), expected) << round << ": " << top;
      if (expected >> 8 > HuffmanLookup::kQuickBits) {
        ++(top >= HuffmanLookup::kLateBegin ? late : by_length);
      }
    }
  }
  EXPECT_GT(late, 1000u);
  EXPECT_GT(by_length, 1000u);
}

TEST(RingReader, ReadsTheBitsOfASegmentAndThenZeros) {
  Random random(6, Purpose::kTest);
  for (int round = 0; round < 300; ++round) {
    // Sixteen bytes are free on each side.
    const uint64_t words = 16 + random.below(200);
    std::vector<uint32_t> memory(words + 4);
    auto* const bytes = reinterpret_cast<uint8_t*>(memory.data());
    for (uint32_t& word : memory) word = static_cast<uint32_t>(random.below(uint64_t{1} << 32));
    const uint64_t begin = 16 * 8 + random.below(64);
    const uint64_t end = begin + random.below(words * 32 - begin - 4 * 32 + 1);
    const uint32_t stride = 1 + static_cast<uint32_t>(random.below(3));
    std::vector<uint32_t> ring(size_t{RingReader::kRingWords} * stride);
    RingReader reader(ring.data(), stride, memory.data(), begin, end);
    uint64_t at = begin;
    const uint64_t most = 1 + random.below(RingReader::kDropBits);
    for (uint32_t step = 0; at < end + 2000; ++step) {
      if (step % RingReader::kDropsPerFill == 0) reader.fill();
      const uint32_t seen = reader.peek();
      for (uint32_t i = 0; i < 32 && at + i < end; ++i) {
        const uint32_t bit = bytes[(at + i) / 8] >> (7 - (at + i) % 8) & 1;
        ASSERT_EQ(seen >> (31 - i) & 1, bit) << round << ": bit " << at + i << " of " << end;
      }
      ASSERT_TRUE(seen == 0 || at <= end + 256);
      ASSERT_EQ(reader.is_past_end(), at > end);
      ASSERT_TRUE(at > end || reader.left() == end - at);
      const auto bits = static_cast<uint32_t>(random.below(most + 1));
      reader.drop(bits);
      at += bits;
      if (most == 1 && step > 6000) break;
    }
  }
}

}  // namespace
}  // namespace forebay::jpeg::gpu
