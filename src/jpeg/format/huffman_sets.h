// The Huffman tables that are compiled into Forebay: up to 8 for each slot, complete for every
// legal symbol, so that any image can be coded with them. The reasons are in
// docs/decisions/0003-huffman-sets.md. scripts/train_huffman_sets.cc made the tables. Files on disk
// do not refer to them: each file carries its tables, cut to the codes in use, and a decoder
// recognises them as prefixes of these.
#pragma once

#include "jpeg/format/huffman_table.h"

namespace forebay::jpeg {

inline constexpr size_t kHuffmanSets = 8;

struct SharedTable {
  HuffmanTable table;
  HuffmanCodes codes;
};

const SharedTable& shared_table(size_t slot, size_t set);

// The tables as bytes, like in a DHT segment without class and number: 16 counts, then symbols.
namespace data {
inline constexpr size_t kDcSymbols = 12;
inline constexpr size_t kAcSymbols = 162;
extern const uint8_t kDcTables[2][kHuffmanSets][16 + kDcSymbols];  // luma, chroma
extern const uint8_t kAcTables[2][kHuffmanSets][16 + kAcSymbols];
}  // namespace data

}  // namespace forebay::jpeg
