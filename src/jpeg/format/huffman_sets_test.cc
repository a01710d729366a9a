// The compiled-in Huffman tables have a code for every legal symbol, and none of all ones.
#include "jpeg/format/huffman_sets.h"

#include <gtest/gtest.h>

namespace forebay::jpeg {
namespace {

TEST(HuffmanSets, AreCompleteForLegalSymbolsAndValid) {
  for (size_t slot = 0; slot < kSlots; ++slot) {
    for (size_t set = 0; set < kHuffmanSets; ++set) {
      const SharedTable& shared = shared_table(slot, set);
      uint32_t used = 0;  // how many of 2^16 code points
      for (int symbol = 0; symbol < 256; ++symbol) {
        const uint8_t length = shared.codes.length[static_cast<size_t>(symbol)];
        EXPECT_EQ(length != 0, is_legal_symbol(is_ac(slot), symbol));
        if (length != 0) used += 1u << (16 - length);
      }
      EXPECT_LT(used, 1u << 16) << "the code of all ones is used";
    }
  }
}

}  // namespace
}  // namespace forebay::jpeg
