// The lookup tables of the images that a thread decodes: built when a Huffman table is first seen,
// kept while there is room. An image whose tables are the beginnings of compiled-in ones
// (huffman_sets.h) or of the standard ones uses those, which are built once for all threads and
// copied, as the kernels look everything up in one arena.
#pragma once

#include <optional>

#include "jpeg/entropy.h"
#include "jpeg/scan.h"

namespace forebay::jpeg {

// The compiled-in or standard table that `bytes` (of TableBytes) are the beginning of, or null.
const HuffmanTable* find_known_table(Bytes bytes, bool ac);

// Smaller images, in MCUs, are decoded faster than lookups for tables of their own are built.
inline constexpr uint32_t kPrivateTablesMcusMin = 64;

class LookupCache {
 public:
  LookupCache();
  const LookupArena& arena() const { return arena_; }

  // From here on, what was in use may be dropped.
  void begin() { ++turn_; }
  enum class Found : uint8_t {
    kYes,
    kNoRoom,  // beside the tables that are in use
    kNo,      // more than two pairs of tables, or one that may not be built
  };
  // Fills in all but `pairs` and marked_lookups; `pair_of`: which pair each component has.
  // `may_build`: lookups for tables that are not known beforehand.
  Found find(const Scan& scan, bool may_build, StreamTables* tables,
             std::array<uint32_t, 3>* pair_of);

 private:
  struct Item {
    bool ac = false;
    uint64_t last_turn = 0;
    const HuffmanTable* known = nullptr;  // the shared or standard table that it is
    HuffmanTable table;
    CanonicalTable canonical;
  };
  static constexpr uint32_t kItems =
      (LookupArena::kSlots - LookupArena::kFirstFree) / kTableLookups;

  // The item's number, when it is found; its lookups are at first_slot(number) and behind it.
  Found find_item(Bytes table, bool ac, bool may_build, uint32_t* number);
  static uint32_t first_slot(uint32_t number) {
    return LookupArena::kFirstFree + kTableLookups * number;
  }

  LookupArena arena_;
  std::unique_ptr<std::array<Item, kItems>> items_;
  uint64_t turn_ = 1;
};

}  // namespace forebay::jpeg
