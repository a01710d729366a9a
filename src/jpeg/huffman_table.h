// Huffman tables as JPEG defines them (T.81 Annex C and K.2): lists of symbols by code length.
#pragma once

#include <array>
#include <span>

#include "base/bytes.h"
#include "base/status.h"

namespace forebay::jpeg {

// The four tables of an image. Component 0 uses the luma ones, the others the chroma ones.
enum Slot : uint8_t { kDcLuma, kAcLuma, kDcChroma, kAcChroma };
inline constexpr size_t kSlots = 4;
inline constexpr bool is_ac(size_t slot) { return slot % 2 == 1; }

// How often each symbol comes.
using Histogram = std::array<uint32_t, 256>;

struct HuffmanTable {
  std::array<uint8_t, 16> bits{};     // codes of 1 to 16 bits
  std::array<uint8_t, 256> values{};  // symbols, shortest codes first
  uint32_t count = 0;                 // symbols

  bool operator==(const HuffmanTable&) const = default;
  // In a DHT segment.
  uint32_t dht_bytes() const { return 17 + count; }
};

// The codes of a table by symbol; length 0: no code.
struct HuffmanCodes {
  std::array<uint16_t, 256> code{};
  std::array<uint8_t, 256> length{};
  std::array<uint16_t, 256> rank{};  // position in values, from 1; 0: no code
};
HuffmanCodes codes_of(const HuffmanTable& table);

// A table with the fewest bits for `histogram`, whose codes are at most 16 bits and never all
// ones: T.81 K.2. Symbol 0 (DC difference 0, end of block) always gets a code, so that grey blocks
// can be written.
HuffmanTable optimal_table(const Histogram& histogram);

// The first `count` codes of a table. Still a valid table: the codes that stay do not change.
HuffmanTable cut_table(const HuffmanTable& table, uint32_t count);

// The codes that `histogram` needs of a table: 1 + the highest position of a symbol in use.
uint32_t codes_needed(const HuffmanCodes& codes, const Histogram& histogram);

// Bits that the histogram's symbols take, the value bits behind them not counted.
uint64_t code_bits(const HuffmanCodes& codes, const Histogram& histogram);

// Tables as a DHT segment has them: 16 counts of codes by length, then the symbols. Four of DC,
// four of AC; empty: not defined.
using TableBytes = std::array<base::Bytes, 8>;
// Finds one table of a DHT segment at payload[*at], and moves behind it. kCorrupt for what is no
// table: T.81 B.2.4.2.
base::Status read_table(base::Bytes payload, size_t* at, TableBytes* tables);
// Of one of TableBytes; no codes when it is empty.
HuffmanTable table_of(base::Bytes bytes);

// Symbols that baseline allows: DC categories 0 to 11; AC run 0 to 15 with sizes 1 to 10, end of
// block, run of 16 zeros.
bool is_legal_symbol(bool ac, int symbol);

}  // namespace forebay::jpeg
