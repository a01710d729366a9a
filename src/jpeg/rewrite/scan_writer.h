// Writes the entropy-coded data of a baseline JPEG from symbols and tables (T.81 F.1.2).
#pragma once

#include "jpeg/format/bit_writer.h"
#include "jpeg/format/restart_index.h"
#include "jpeg/kernels/symbols.h"

namespace forebay::jpeg {

using TableCodes = std::array<HuffmanCodes, kSlots>;

// Appends the segments with restart markers between them to `file`, and their lengths and checks to
// `segments`. Every symbol in use must have a code.
void write_scan(const Symbols& symbols, const TableCodes& codes, base::ByteVector* file,
                std::vector<SegmentEntry>* segments);

}  // namespace forebay::jpeg
