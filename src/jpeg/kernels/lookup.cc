#include "jpeg/kernels/lookup.h"

#include <algorithm>

namespace forebay::jpeg {
namespace {

constexpr uint32_t kEndOfBlockSymbol = 0x00;
constexpr uint32_t kLongestCode = 16;
constexpr uint32_t kValueShift = 48;  // where the third coefficient begins
static_assert(kLongPrefix + kLookupBits == kLongestCode);

Entry make_entry(uint32_t length, uint32_t lead, uint32_t count, Flag flag) {
  return length | count << 6 | lead << 8 | Entry{flag} << 14;
}

Entry coefficient(int32_t value, uint32_t slot) {
  return Entry{static_cast<uint16_t>(value)} << (16 + 16 * slot);
}

// Fills all entries that begin with the code, for a coefficient `run` positions further on.
void fill_symbol(uint32_t code, uint32_t length, uint32_t run, uint32_t size, Lookup out) {
  const uint32_t free_bits = kLookupBits - length;
  const auto all = out.subspan(size_t{code} << free_bits, size_t{1} << free_bits);
  if (size > free_bits) {
    std::ranges::fill(
        all, make_entry(length, run, 0, kValueNext) | Entry{size} << (kLookupBits + kValueShift));
    return;
  }
  const size_t each = size_t{1} << (free_bits - size);
  for (uint32_t bits = 0; bits < 1u << size; ++bits) {
    const int32_t value = size == 0 ? 0 : extend(bits, size);
    std::ranges::fill(all.subspan(bits * each, each),
                      make_entry(length + size, run, 1, kPlain) | coefficient(value, 0));
  }
}

void fill_legal(bool ac, uint32_t code, uint32_t length, uint32_t symbol, Lookup out) {
  if (!is_legal_symbol(ac, static_cast<int>(symbol))) return;
  if (!ac) {
    fill_symbol(code, length, 0, symbol, out);
  } else if (symbol == kEndOfBlockSymbol) {
    const uint32_t free_bits = kLookupBits - length;
    std::ranges::fill(out.subspan(size_t{code} << free_bits, size_t{1} << free_bits),
                      make_entry(length, 0, 0, kEndOfBlock));
  } else {
    fill_symbol(code, length, symbol >> 4, symbol & 15, out);
  }
}

// Builds a lookup with one symbol in each entry.
void build_single(bool ac, const HuffmanTable& table, Lookup out, Lookup long_codes) {
  constexpr uint32_t kAllOnes = (1u << kLongPrefix) - 1;
  std::ranges::fill(out, kNoCode);
  std::ranges::fill(long_codes, kNoCode);
  uint32_t code = 0;
  uint32_t at = 0;
  for (uint32_t length = 1; length <= kLongestCode; ++length, code <<= 1) {
    for (uint32_t i = 0; i < table.bits[length - 1]; ++i, ++code) {
      const uint32_t symbol = table.values[at++];
      if (length <= kLookupBits) {
        fill_legal(ac, code, length, symbol, out);
        continue;
      }
      const uint32_t rest = length - kLongPrefix;
      const bool is_long = code >> rest == kAllOnes;
      out[code >> (length - kLookupBits)] = is_long ? kLongCode : kSlowCode;
      if (is_long) fill_legal(ac, code - (kAllOnes << rest), rest, symbol, long_codes);
    }
  }
}

// Joins the symbols after `first` to it, as long as they fit into the bits, into the three
// coefficients, and into a block in which the first begins at kSingleFrom - 1 at the latest.
Entry chain(Entry first, uint32_t index, Lookup single) {
  constexpr uint32_t kMostMoved = 64 - kSingleFrom;
  const uint32_t lead = entry_lead(first);
  Entry entry = first;
  while (entry_flag(entry) == kPlain && !is_away(entry) &&
         lead + entry_count(entry) <= kMostMoved) {
    const uint32_t used = entry_length(entry);
    const Entry next = single[index << used & (kLookupEntries - 1)];
    const Flag flag = entry_flag(next);
    const uint32_t length = used + entry_length(next);
    if (is_away(next) || length > kLookupBits) break;
    const uint32_t slot = entry_count(entry) + entry_lead(next);  // where the next coefficient goes
    // The size of a kValueNext is in the place of the third coefficient. The store of the value
    // itself must overwrite it.
    if (flag != kEndOfBlock && slot > 2) break;
    const Entry kept = entry & ~Entry{0xFFFF};
    const Entry added = flag == kPlain       ? (next >> 16 & 0xFFFF) << (16 + 16 * slot)
                        : flag == kValueNext ? next & ~Entry{0} << kValueShift
                                             : 0;
    entry = make_entry(length, lead, slot + entry_count(next), flag) | kept | added;
  }
  return entry;
}

}  // namespace

void build_lookups(bool ac, const HuffmanTable& table, TableLookups out) {
  const Lookup first = out.first<kLookupEntries>();
  const Lookup single = out.subspan<kLookupEntries, kLookupEntries>();
  const Lookup long_codes = out.subspan<kToLong, kLookupEntries>();
  build_single(ac, table, ac ? single : first, long_codes);
  for (uint32_t index = 0; ac && index < kLookupEntries; ++index) {
    first[index] = chain(single[index], index, single);
  }
  std::ranges::copy(long_codes, out.last<kLookupEntries>().begin());
}

void build_value_lookup(uint32_t size, Lookup out) {
  const uint32_t free_bits = kLookupBits - size;
  for (uint32_t index = 0; index < kLookupEntries; ++index) {
    out[index] = make_entry(size, 0, 1, kPlain) | coefficient(extend(index >> free_bits, size), 0);
  }
}

}  // namespace forebay::jpeg
