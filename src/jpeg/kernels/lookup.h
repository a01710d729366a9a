// Lookup tables for entropy decoding: from the next kLookupBits bits of a scan to up to three
// coefficients at once.
#pragma once

#include <bit>

#include "jpeg/format/huffman_table.h"

namespace forebay::jpeg {

inline constexpr uint32_t kLookupBits = 11;
inline constexpr size_t kLookupEntries = size_t{1} << kLookupBits;

// An entry, from its lowest bit:
//   0  length  6  bits that it consumes
//   6  count   2  positions from its first coefficient on; the entry advances by lead + count
//   8  lead    4  positions before its first coefficient
//  12  away    1  the code is not in this lookup: the entry is one of the three below
//  14  flags   2  Flag
//  16  three int16 coefficients, which are stored together with a fourth that is 0; for a
//      kValueNext, the third is the size of the value << kLookupBits
using Entry = uint64_t;
enum Flag : uint32_t {
  kPlain = 0,
  kValueNext = 1,   // the next position gets its value from the bits that follow
  kEndOfBlock = 2,  // the block ends after the coefficients
  kNowhere = 3,     // the code is in no lookup
};
// A code that is too long for the lookup and begins with kLongPrefix ones. The prefix is consumed;
// the rest is in the lookup this many entries further on.
inline constexpr uint32_t kLongPrefix = 5;
inline constexpr uint32_t kToLong = 2 * kLookupEntries;
inline constexpr Entry kLongCode = kToLong | kLongPrefix;
// Any other code that is too long.
inline constexpr Entry kSlowCode = Entry{kNowhere} << 14 | kToLong;
// A code that baseline does not allow.
inline constexpr Entry kNoCode = kSlowCode | 1 << 6;
static_assert(kToLong == 1 << 12);  // kToLong is the bit `away` itself
inline constexpr bool is_away(Entry entry) { return (entry & kToLong) != 0; }
inline constexpr uint32_t entry_length(Entry entry) { return entry & 63; }
// Rotates because x86, unlike with a shift, rotates from one register to another.
inline constexpr uint32_t entry_count(Entry entry) { return std::rotr(entry, 6) & 3; }
inline constexpr uint32_t entry_lead(Entry entry) { return std::rotr(entry, 8) & 15; }
inline constexpr Flag entry_flag(Entry entry) { return static_cast<Flag>(entry >> 14 & 3); }
// Returns where the lookup of the value of a kValueNext entry begins in the arena.
inline constexpr uint32_t entry_value_lookup(Entry entry) {
  return static_cast<uint32_t>(entry >> 48);
}

// From this position in a block on, a lookup may find only one symbol: a block ends without a mark
// when position 63 is coded, and after it other tables apply.
inline constexpr uint32_t kSingleFrom = 58;

using Lookup = std::span<Entry, kLookupEntries>;

// The lookups of a table: DC symbols, or as many AC symbols as fit; single AC symbols; then the two
// lookups of long codes, for the first and the second one, which are equal.
inline constexpr uint32_t kTableLookups = 4;
using TableLookups = std::span<Entry, kTableLookups * kLookupEntries>;
void build_lookups(bool ac, const HuffmanTable& table, TableLookups out);
// Builds the lookup for a value of the next `size` bits (1 to 11).
void build_value_lookup(uint32_t size, Lookup out);

// Returns the value that `size` bits (1 to 15) stand for (T.81 figure F.12).
inline constexpr int32_t extend(uint32_t bits, uint32_t size) {
  const auto value = static_cast<int32_t>(bits);
  return bits >> (size - 1) != 0 ? value : value - (1 << size) + 1;
}

}  // namespace forebay::jpeg
