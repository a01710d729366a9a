// Lookup tables for entropy decoding: what the next kLookupBits bits of a scan say, up to three
// coefficients at once.
#pragma once

#include <bit>

#include "jpeg/huffman_table.h"

namespace forebay::jpeg {

inline constexpr uint32_t kLookupBits = 11;
inline constexpr size_t kLookupEntries = size_t{1} << kLookupBits;

// An entry, from its lowest bit:
//   0  length  6  bits that it consumes
//   6  count   2  positions from its coefficients' first on: it moves on lead + count
//   8  lead    4  positions before its coefficients
//  12  away    1  what is looked for is not here: one of the three below
//  14  flags   2  Flag
//  16  three int16 coefficients, to be stored with a fourth of 0; of a kValueNext, the third is the
//      value's size << kLookupBits
using Entry = uint64_t;
enum Flag : uint32_t {
  kPlain = 0,
  kValueNext = 1,   // the next position gets its value from the bits that follow
  kEndOfBlock = 2,  // behind its coefficients
  kNowhere = 3,     // in no lookup
};
// A code that is too long for the lookup and begins with kLongPrefix ones, which are consumed: the
// rest is in the lookup so many entries further on.
inline constexpr uint32_t kLongPrefix = 5;
inline constexpr uint32_t kToLong = 2 * kLookupEntries;
inline constexpr Entry kLongCode = kToLong | kLongPrefix;
// Another code that is too long.
inline constexpr Entry kSlowCode = Entry{kNowhere} << 14 | kToLong;
// No code that baseline allows.
inline constexpr Entry kNoCode = kSlowCode | 1 << 6;
static_assert(kToLong == 1 << 12);  // the bit itself
inline constexpr bool is_away(Entry entry) { return (entry & kToLong) != 0; }
inline constexpr uint32_t entry_length(Entry entry) { return entry & 63; }
// Rotated: x86 does that, unlike a shift, from one register to another.
inline constexpr uint32_t entry_count(Entry entry) { return std::rotr(entry, 6) & 3; }
inline constexpr uint32_t entry_lead(Entry entry) { return std::rotr(entry, 8) & 15; }
inline constexpr Flag entry_flag(Entry entry) { return static_cast<Flag>(entry >> 14 & 3); }
// Of a kValueNext: where the value's lookup begins, in the arena.
inline constexpr uint32_t entry_value_lookup(Entry entry) {
  return static_cast<uint32_t>(entry >> 48);
}

// From this position in a block on, a lookup may find one symbol only: blocks end without a mark
// when position 63 is coded, and behind them other tables count.
inline constexpr uint32_t kSingleFrom = 58;

using Lookup = std::span<Entry, kLookupEntries>;

// A table's lookups: of DC symbols, or of as many AC symbols as fit; of single AC symbols; then
// those of long codes that the first and the second come to, which are the same.
inline constexpr uint32_t kTableLookups = 4;
using TableLookups = std::span<Entry, kTableLookups * kLookupEntries>;
void build_lookups(bool ac, const HuffmanTable& table, TableLookups out);
// The value of `size` bits (1 to 11) that come next.
void build_value_lookup(uint32_t size, Lookup out);

// T.81 figure F.12: the value that `size` bits (1 to 15) stand for.
inline constexpr int32_t extend(uint32_t bits, uint32_t size) {
  const auto value = static_cast<int32_t>(bits);
  return bits >> (size - 1) != 0 ? value : value - (1 << size) + 1;
}

}  // namespace forebay::jpeg
