// The lookup tables for the images that a thread decodes. They are built when a Huffman table is
// first seen, and kept while there is room. Tables that are a prefix of a compiled-in table
// (huffman_sets.h) or of a standard table share its lookups. These are built once for all threads,
// then copied, because the kernels look everything up in one arena.
#pragma once

#include <optional>

#include "jpeg/format/scan.h"
#include "jpeg/kernels/entropy.h"

namespace forebay::jpeg {

// Returns the compiled-in or standard table that begins with `bytes` (one of TableBytes), or null.
const HuffmanTable* find_known_table(Bytes bytes, bool ac);

// Images with fewer MCUs are decoded faster than lookups for their own tables are built.
inline constexpr uint32_t kPrivateTablesMcusMin = 64;

class LookupCache {
 public:
  LookupCache();
  const LookupArena& arena() const { return arena_; }

  // Begins a new batch. Tables that were in use before may be dropped from now on.
  void begin() { ++turn_; }
  enum class Found : uint8_t {
    kYes,
    kNoRoom,  // no room next to the tables that are in use
    kNo,      // more than two pairs of tables, or a table that may not be built
  };
  // Finds or builds the lookups for the tables of `scan`. Fills in `tables` except for `pairs` and
  // marked_lookups; `pair_of` receives the pair of tables for each component. `may_build` allows
  // building lookups for tables that are neither compiled in nor standard.
  Found find(const Scan& scan, bool may_build, StreamTables* tables,
             std::array<uint32_t, 3>* pair_of);

 private:
  struct Item {
    bool ac = false;
    uint64_t last_turn = 0;
    const HuffmanTable* known = nullptr;  // the shared or standard table that this item holds
    HuffmanTable table;
    CanonicalTable canonical;
  };
  static constexpr uint32_t kItems =
      (LookupArena::kSlots - LookupArena::kFirstFree) / kTableLookups;

  // Finds or builds one table. `number` receives its item; its lookups begin at first_slot(number).
  Found find_item(Bytes table, bool ac, bool may_build, uint32_t* number);
  static uint32_t first_slot(uint32_t number) {
    return LookupArena::kFirstFree + kTableLookups * number;
  }

  LookupArena arena_;
  std::unique_ptr<std::array<Item, kItems>> items_;
  uint64_t turn_ = 1;
};

}  // namespace forebay::jpeg
