// Huffman tables of JPEG (T.81 Annex C and K.2): lists of symbols by code length. Lookup tables for
// fast decoding are in kernels/lookup.h.
#pragma once

#include <array>
#include <span>

#include "base/bytes.h"
#include "base/status.h"

namespace forebay::jpeg {

// The four tables of an image. Component 0 uses the luma tables, the others use the chroma tables.
enum Slot : uint8_t { kDcLuma, kAcLuma, kDcChroma, kAcChroma };
inline constexpr size_t kSlots = 4;
inline constexpr bool is_ac(size_t slot) { return slot % 2 == 1; }

// How often each symbol occurs.
using Histogram = std::array<uint32_t, 256>;

struct HuffmanTable {
  std::array<uint8_t, 16> bits{};     // the number of codes of 1 to 16 bits
  std::array<uint8_t, 256> values{};  // symbols, shortest codes first
  uint32_t count = 0;                 // the number of symbols

  bool operator==(const HuffmanTable&) const = default;
  // The number of bytes of the table in a DHT segment.
  uint32_t dht_bytes() const { return 17 + count; }
};

// The codes of a table by symbol. Length 0 means no code.
struct HuffmanCodes {
  std::array<uint16_t, 256> code{};
  std::array<uint8_t, 256> length{};
  std::array<uint16_t, 256> rank{};  // position in values, from 1; 0: no code
};
HuffmanCodes codes_of(const HuffmanTable& table);

// Returns the table that codes `histogram` with the fewest bits. Codes have at most 16 bits and are
// never all ones (T.81 K.2). Symbol 0 (DC difference 0, end of block) always gets a code, so that
// grey blocks can be written.
HuffmanTable optimal_table(const Histogram& histogram);

// Returns a table of the first `count` codes. The result is valid, because these codes do not
// change.
HuffmanTable cut_table(const HuffmanTable& table, uint32_t count);

// Returns how many codes of a table `histogram` needs: 1 + the highest position of a symbol in use.
uint32_t codes_needed(const HuffmanCodes& codes, const Histogram& histogram);

// Returns the number of bits that the codes of the histogram's symbols take, without the value bits
// after them.
uint64_t code_bits(const HuffmanCodes& codes, const Histogram& histogram);

// Tables in the form of a DHT segment: 16 counts of codes by length, then the symbols. Four for DC,
// then four for AC; an empty table is not defined.
using TableBytes = std::array<base::Bytes, 8>;
// Finds one table of a DHT segment at payload[*at], and moves *at past it. kCorrupt when it is not
// a valid table (T.81 B.2.4.2).
base::Status read_table(base::Bytes payload, size_t* at, TableBytes* tables);
// Parses one of TableBytes. Empty bytes become a table without codes.
HuffmanTable table_of(base::Bytes bytes);

// Whether baseline allows a symbol: DC categories 0 to 11; AC runs 0 to 15 with sizes 1 to 10, end
// of block, run of 16 zeros.
bool is_legal_symbol(bool ac, int symbol);

}  // namespace forebay::jpeg
