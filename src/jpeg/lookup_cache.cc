#include "jpeg/lookup_cache.h"

#include <algorithm>

#include "jpeg/huffman_sets.h"

namespace forebay::jpeg {
namespace {

// Whether `table` is the first codes of `whole`.
bool is_beginning(const HuffmanTable& table, const HuffmanTable& whole) {
  if (table.count > whole.count) return false;
  uint32_t left = table.count;
  for (size_t i = 0; i < 16; ++i) {
    const uint32_t kept = std::min<uint32_t>(whole.bits[i], left);
    if (table.bits[i] != kept) return false;
    left -= kept;
  }
  return std::equal(table.values.begin(), table.values.begin() + table.count, whole.values.begin());
}

// The compiled-in table that `table` is the beginning of, or itself.
const HuffmanTable& whole_table(const HuffmanTable& table, bool ac) {
  for (const size_t slot : {ac ? kAcLuma : kDcLuma, ac ? kAcChroma : kDcChroma}) {
    for (size_t set = 0; set < kHuffmanSets; ++set) {
      const HuffmanTable& whole = shared_table(slot, set).table;
      if (is_beginning(table, whole)) return whole;
    }
  }
  return table;
}

}  // namespace

LookupCache::LookupCache() : items_(std::make_unique<std::array<Item, kItems>>()) {}

bool LookupCache::find(const Scan& scan, StreamTables* tables, std::array<uint32_t, 3>* pair_of) {
  std::array<uint32_t, 2> first_of_pair{};
  uint32_t pairs = 0;
  for (uint32_t i = 0; i < static_cast<uint32_t>(scan.component_count); ++i) {
    const ScanComponent& component = scan.components[i];
    uint32_t pair = 0;
    while (pair < pairs && (scan.components[first_of_pair[pair]].dc != component.dc ||
                            scan.components[first_of_pair[pair]].ac != component.ac)) {
      ++pair;
    }
    (*pair_of)[i] = pair;
    if (pair < pairs) continue;
    if (pairs == first_of_pair.size()) return false;
    first_of_pair[pairs++] = i;
    const auto dc = find_item(scan.tables[component.dc], false);
    const auto ac = find_item(scan.tables[component.ac], true);
    if (!dc || !ac) return false;
    tables->slots[pair * 4 + StreamTables::kDc] = static_cast<uint8_t>(first_slot(*dc));
    tables->slots[pair * 4 + StreamTables::kAcChained] = static_cast<uint8_t>(first_slot(*ac));
    tables->slots[pair * 4 + StreamTables::kAcSingle] = static_cast<uint8_t>(first_slot(*ac) + 1);
    tables->canonical[pair * 2] = &(*items_)[*dc].canonical;
    tables->canonical[pair * 2 + 1] = &(*items_)[*ac].canonical;
  }
  return true;
}

std::optional<uint32_t> LookupCache::find_item(const HuffmanTable& table, bool ac) {
  const HuffmanTable& whole = whole_table(table, ac);
  uint32_t oldest = 0;
  for (uint32_t i = 0; i < kItems; ++i) {
    Item& item = (*items_)[i];
    if (item.last_turn != 0 && item.ac == ac && item.table == whole) {
      item.last_turn = turn_;
      return i;
    }
    if (item.last_turn < (*items_)[oldest].last_turn) oldest = i;
  }
  if ((*items_)[oldest].last_turn == turn_) return std::nullopt;
  build(oldest, whole, ac);
  return oldest;
}

void LookupCache::build(uint32_t number, const HuffmanTable& table, bool ac) {
  (*items_)[number] = {ac, turn_, table, canonical_table(table)};
  const uint32_t slot = first_slot(number);
  if (ac) {
    build_ac_lookups(table, arena_.slot(slot), arena_.slot(slot + 1));
  } else {
    build_dc_lookup(table, arena_.slot(slot));
  }
}

}  // namespace forebay::jpeg
