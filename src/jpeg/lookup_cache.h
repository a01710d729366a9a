// The lookup tables of the images that a thread decodes: built when a Huffman table is first seen,
// kept while there is room. An image whose tables are the beginnings of compiled-in ones
// (huffman_sets.h) uses those.
#pragma once

#include <optional>

#include "jpeg/entropy.h"
#include "jpeg/scan.h"

namespace forebay::jpeg {

class LookupCache {
 public:
  LookupCache();
  const LookupArena& arena() const { return arena_; }

  // From here on, what was in use may be dropped.
  void begin() { ++turn_; }
  // Fills in all but `pairs` and slot_at; `pair_of`: which pair each component has. False when the
  // components have more than two pairs of tables, or more tables are in use than fit.
  bool find(const Scan& scan, StreamTables* tables, std::array<uint32_t, 3>* pair_of);

 private:
  struct Item {
    bool ac = false;
    uint64_t last_turn = 0;
    const HuffmanTable* shared = nullptr;  // the compiled-in table that it is
    HuffmanTable table;
    CanonicalTable canonical;
  };
  static constexpr uint32_t kItems =
      (LookupArena::kSlots - LookupArena::kFirstFree) / LookupArena::kTableSlots;

  // The item's number; its lookups are at first_slot(number) and behind it.
  std::optional<uint32_t> find_item(Bytes table, bool ac);
  void build(uint32_t number, const HuffmanTable& table, bool ac);
  static uint32_t first_slot(uint32_t number) {
    return LookupArena::kFirstFree + LookupArena::kTableSlots * number;
  }

  LookupArena arena_;
  std::unique_ptr<std::array<Item, kItems>> items_;
  uint64_t turn_ = 1;
};

}  // namespace forebay::jpeg
