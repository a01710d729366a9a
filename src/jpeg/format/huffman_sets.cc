#include "jpeg/format/huffman_sets.h"

namespace forebay::jpeg {
namespace {

using Tables = std::array<std::array<SharedTable, kHuffmanSets>, kSlots>;

Tables build_tables() {
  Tables tables;
  for (size_t slot = 0; slot < kSlots; ++slot) {
    for (size_t set = 0; set < kHuffmanSets; ++set) {
      SharedTable& shared = tables[slot][set];
      shared.table = is_ac(slot) ? table_of(data::kAcTables[slot / 2][set])
                                 : table_of(data::kDcTables[slot / 2][set]);
      shared.codes = codes_of(shared.table);
    }
  }
  return tables;
}

// The tables are built at the start of the program, because a forked process must not wait for a
// thread of its parent that is building them.
const Tables tables = build_tables();

}  // namespace

const SharedTable& shared_table(size_t slot, size_t set) { return tables[slot][set]; }

}  // namespace forebay::jpeg
