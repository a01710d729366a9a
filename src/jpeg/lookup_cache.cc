#include "jpeg/lookup_cache.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "jpeg/format/huffman_sets.h"
#include "jpeg/turbo.h"

namespace forebay::jpeg {
namespace {

// Whether `bytes` are the first codes of `whole`.
bool is_beginning(Bytes bytes, const HuffmanTable& whole) {
  auto left = static_cast<uint32_t>(bytes.size() - 16);
  const Bytes symbols = bytes.subspan(16);
  if (left > whole.count) return false;
  for (size_t i = 0; i < 16; ++i) {
    const uint32_t kept = std::min<uint32_t>(whole.bits[i], left);
    if (bytes[i] != kept) return false;
    left -= kept;
  }
  return std::ranges::equal(symbols, std::span(whole.values).first(symbols.size()));
}

// Lookups for compiled-in and standard tables, kept for all threads, because building them takes
// longer than decoding a small image. Entries are added and never changed, without a lock: a forked
// process must not wait for a thread of its parent that was building. Two threads may build the
// same lookups.
struct KnownLookups {
  const HuffmanTable* table;
  std::vector<Entry> lookups;
  const KnownLookups* next;
};
std::atomic<const KnownLookups*> newest_known = nullptr;

const Entry* lookups_of_known(const HuffmanTable* table, bool ac) {
  const KnownLookups* newest = newest_known;
  for (const auto* known = newest; known != nullptr; known = known->next) {
    if (known->table == table) return known->lookups.data();
  }
  std::vector<Entry> lookups(kTableLookups * kLookupEntries);
  build_lookups(ac, *table, TableLookups(lookups));
  auto* const added = new KnownLookups{table, std::move(lookups), newest};
  while (!newest_known.compare_exchange_weak(added->next, added)) continue;
  return added->lookups.data();
}

bool equals(const HuffmanTable& table, Bytes bytes) {
  return table.count + 16 == bytes.size() && std::ranges::equal(table.bits, bytes.first(16)) &&
         std::ranges::equal(std::span(table.values).first(table.count), bytes.subspan(16));
}

}  // namespace

const HuffmanTable* find_known_table(Bytes bytes, bool ac) {
  for (const size_t slot : {ac ? kAcLuma : kDcLuma, ac ? kAcChroma : kDcChroma}) {
    for (size_t set = 0; set < kHuffmanSets; ++set) {
      const HuffmanTable& whole = shared_table(slot, set).table;
      if (is_beginning(bytes, whole)) return &whole;
    }
    if (is_beginning(bytes, standard_table(slot))) return &standard_table(slot);
  }
  return nullptr;
}

LookupCache::LookupCache() : items_(std::make_unique<std::array<Item, kItems>>()) {}

LookupCache::Found LookupCache::find(const Scan& scan, bool may_build, StreamTables* tables,
                                     std::array<uint32_t, 3>* pair_of) {
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
    if (pairs == first_of_pair.size()) return Found::kNo;
    first_of_pair[pairs++] = i;
    uint32_t dc = 0;
    uint32_t ac = 0;
    Found found = find_item(scan.tables[component.dc], false, may_build, &dc);
    if (found == Found::kYes) {
      found = find_item(scan.tables[component.ac], true, may_build, &ac);
    }
    if (found != Found::kYes) return found;
    tables->slots[pair * 4 + StreamTables::kDc] = static_cast<uint8_t>(first_slot(dc));
    tables->slots[pair * 4 + StreamTables::kAcChained] = static_cast<uint8_t>(first_slot(ac));
    tables->slots[pair * 4 + StreamTables::kAcSingle] = static_cast<uint8_t>(first_slot(ac) + 1);
    tables->canonical[pair * 2] = &(*items_)[dc].canonical;
    tables->canonical[pair * 2 + 1] = &(*items_)[ac].canonical;
  }
  return Found::kYes;
}

LookupCache::Found LookupCache::find_item(Bytes bytes, bool ac, bool may_build, uint32_t* number) {
  const HuffmanTable* const known = find_known_table(bytes, ac);
  if (known == nullptr && !may_build) return Found::kNo;
  uint32_t oldest = 0;
  for (uint32_t i = 0; i < kItems; ++i) {
    Item& item = (*items_)[i];
    const bool same = item.last_turn != 0 && item.ac == ac && item.known == known &&
                      (known != nullptr || equals(item.table, bytes));
    if (same) {
      item.last_turn = turn_;
      *number = i;
      return Found::kYes;
    }
    if (item.last_turn < (*items_)[oldest].last_turn) oldest = i;
  }
  if ((*items_)[oldest].last_turn == turn_) return Found::kNoRoom;
  const HuffmanTable table = known != nullptr ? *known : table_of(bytes);
  (*items_)[oldest] = {ac, turn_, known, table, canonical_table(table)};
  const TableLookups lookups = arena_.of_table(first_slot(oldest));
  if (known == nullptr) {
    build_lookups(ac, table, lookups);
  } else {
    std::copy_n(lookups_of_known(known, ac), lookups.size(), lookups.begin());
  }
  *number = oldest;
  return Found::kYes;
}

}  // namespace forebay::jpeg
