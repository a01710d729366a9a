#include "jpeg/rewrite/scan_writer.h"

#include "jpeg/format/markers.h"

namespace forebay::jpeg {
namespace {

// A code, shifted left to make room for the value bits after it, so that a token is written at
// once.
struct ShiftedCode {
  uint32_t shifted = 0;
  uint32_t length = 0;
};
using ShiftedCodes = std::array<ShiftedCode, kSlots * 256>;

ShiftedCodes entries_of(const TableCodes& codes) {
  ShiftedCodes entries;
  for (size_t slot = 0; slot < kSlots; ++slot) {
    for (size_t symbol = 0; symbol < 256; ++symbol) {
      const uint32_t size = symbol & 15;
      entries[slot << 8 | symbol] = {uint32_t{codes[slot].code[symbol]} << size,
                                     codes[slot].length[symbol] + size};
    }
  }
  return entries;
}

// Returns the number of bytes of the scan without stuffing.
size_t estimate(const Symbols& symbols, const ShiftedCodes& entries) {
  uint64_t bits = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    bits += uint64_t{symbols.histograms[i >> 8][i & 255]} * entries[i].length;
  }
  return static_cast<size_t>(bits / 8) + symbols.segment_ends.size() * 3;
}

}  // namespace

void write_scan(const Symbols& symbols, const TableCodes& codes, base::ByteVector* file,
                std::vector<SegmentEntry>* segments) {
  const ShiftedCodes entries = entries_of(codes);
  const size_t before = file->size();
  const size_t bytes = estimate(symbols, entries);
  file->resize(before + bytes + bytes / 64 + 64);
  segments->reserve(symbols.segment_ends.size());
  BitWriter writer(file, before);
  const Token* token = symbols.tokens.data();
  const Token* const first = token;
  for (const size_t end : symbols.segment_ends) {
    const size_t number = segments->size();
    if (number > 0) writer.raw(0xFF, static_cast<uint8_t>(kRst0 + (number - 1) % 8));
    const size_t start = writer.used();
    // Writes two tokens at once, because most of the time for a token goes into checking whether
    // the buffer is full.
    for (; first + end - token >= 2; token += 2) {
      const ShiftedCode& a = entries[token[0] & 1023];
      const ShiftedCode& b = entries[token[1] & 1023];
      const uint64_t bits = uint64_t{a.shifted | token[0] >> 16} << b.length;
      writer.put(bits | b.shifted | token[1] >> 16, a.length + b.length);
    }
    if (token != first + end) {
      const ShiftedCode& code = entries[*token & 1023];
      writer.put(code.shifted | *token >> 16, code.length);
      ++token;
    }
    writer.finish();
    const Bytes data(file->data() + start, writer.used() - start);
    segments->push_back({static_cast<uint32_t>(data.size()), segment_check(data)});
  }
  file->resize(writer.used());
}

}  // namespace forebay::jpeg
