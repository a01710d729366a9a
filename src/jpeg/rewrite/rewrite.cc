#include "jpeg/rewrite/rewrite.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/limits.h"
#include "jpeg/format/huffman_sets.h"
#include "jpeg/format/markers.h"
#include "jpeg/kernels/symbols.h"
#include "jpeg/rewrite/coefficient_reader.h"
#include "jpeg/rewrite/scan_writer.h"

namespace forebay::jpeg {
namespace {

using base::ByteVector;
using base::Code;
using base::fail;

// An image with fewer MCUs gets no restart markers unless asked for, and always shared tables:
// building lookups for its own tables would take longer than decoding it.
constexpr uint32_t kSmallMcus = 64;
// Private tables must save this share of the file: a decoder has to build them for each image.
constexpr uint64_t kPrivateGainPercent = 3;

// The buffers that one thread keeps between images. A thumbnail would otherwise spend most of its
// time on allocation.
struct Workspace {
  const EntropyKernel kernel = best_entropy_kernel();
  CoefficientReader reader;
  Coefficients coefficients;
  Symbols symbols;

  // Frees the memory of an unusually large image.
  void trim() {
    constexpr size_t kBlocksKept = size_t{1} << 16;
    if (coefficients.blocks.size() > kBlocksKept * 64) coefficients.blocks = {};
    symbols.tokens.trim();
  }
};

struct SelectedTables {
  std::array<HuffmanTable, kSlots> tables;
  TableCodes codes;
  int set = -1;
  uint64_t bits = 0;  // bits of code words and DHT segments
};

size_t slots_of(const Header& header) { return header.component_count == 1 ? 2 : kSlots; }

// The messages of kUnsupported contain no numbers, because pack counts the files that it keeps by
// message.
Status check_supported(const Header& header) {
  const bool other = header.coding == Coding::kLossless || header.coding == Coding::kOther;
  if (other || header.precision != 8) {
    return fail(Code::kUnsupported, "JPEG: arithmetic, lossless or not 8 bits");
  }
  if (header.component_count != 1 && header.component_count != 3) {
    return fail(Code::kUnsupported, "JPEG: neither grey nor three colours");
  }
  size_t blocks = 0;
  for (size_t i = 0; i < static_cast<size_t>(header.component_count); ++i) {
    const Component& component = header.components[i];
    blocks += size_t{component.horizontal} * component.vertical;
    for (size_t j = 0; j < i; ++j) {
      if (header.components[j].id == component.id) {
        return fail(Code::kUnsupported, "JPEG: two components have the same id");
      }
    }
  }
  if (header.component_count > 1 && blocks > base::kMcuBlocksMax) {
    return fail(Code::kUnsupported,
                "JPEG: more blocks in an MCU than an interleaved scan may have");
  }
  return {};
}

// Bytes after the image belong to something that the rewrite would lose: more pictures (MPO), or
// the video of a motion photo. Zeros are padding.
Status check_end(Bytes after) {
  if (std::ranges::all_of(after, [](uint8_t byte) { return byte == 0; })) return {};
  return fail(Code::kUnsupported, "JPEG: more data after the image (MPO, motion photo)");
}

// Copies the APPn and COM segments of the whole file, in order, unchanged.
Status copy_metadata(Bytes source, ByteVector* out) {
  MarkerReader reader(source);
  bool scanned = false;
  // The end of the file counts as EOI, because all blocks have been read.
  while (!scanned || reader.position() < source.size()) {
    ASSIGN_OR_RETURN(const Marker marker, reader.next());
    if (reader.found_stray_bytes()) {
      return fail(Code::kUnsupported, "JPEG: bytes between its markers that belong to no segment");
    }
    if (marker.code == kEoi) return check_end(source.subspan(reader.position()));
    if (marker.code == kSos) {
      reader.skip_scan();
      scanned = true;
    }
    if (!is_metadata(marker.code)) continue;
    // libjpeg decides about colours at the first scan. Such a marker after the scan has no effect,
    // but would have one if it moved to the front.
    if (scanned && (marker.code == kApp0 || marker.code == kApp14)) {
      return fail(Code::kUnsupported, "JPEG: APP0 or APP14 after the first scan");
    }
    const size_t length = marker.payload.size() + 2;
    const uint8_t head[] = {0xFF, marker.code, static_cast<uint8_t>(length >> 8),
                            static_cast<uint8_t>(length)};
    out->insert(out->end(), head, head + 4);
    out->insert(out->end(), marker.payload.begin(), marker.payload.end());
  }
  return {};
}

uint32_t restart_interval(const Header& header, const std::optional<uint32_t>& wish) {
  if (wish.has_value()) return *wish;
  if (header.mcu_count() < kSmallMcus) return 0;
  const bool subsampled = header.mcu_width() > 8 || header.mcu_height() > 8;
  return subsampled ? 4 : 8;
}

SelectedTables private_tables(const Symbols& symbols, size_t slots) {
  SelectedTables chosen;
  for (size_t slot = 0; slot < slots; ++slot) {
    chosen.tables[slot] = optimal_table(symbols.histograms[slot]);
    chosen.codes[slot] = codes_of(chosen.tables[slot]);
    chosen.bits += code_bits(chosen.codes[slot], symbols.histograms[slot]) +
                   8 * chosen.tables[slot].dht_bytes();
  }
  return chosen;
}

// Chooses the best shared table for each slot separately: sets are lists of tables, not bundles.
SelectedTables shared_tables(const Symbols& symbols, size_t slots) {
  SelectedTables chosen;
  for (size_t slot = 0; slot < slots; ++slot) {
    const Histogram& histogram = symbols.histograms[slot];
    uint64_t best = UINT64_MAX;
    size_t best_set = 0;
    uint32_t best_count = 0;
    for (size_t set = 0; set < kHuffmanSets; ++set) {
      const HuffmanCodes& codes = shared_table(slot, set).codes;
      const uint32_t count = codes_needed(codes, histogram);
      const uint64_t bits = code_bits(codes, histogram) + 8 * (17 + count);
      if (bits >= best) continue;
      best = bits;
      best_set = set;
      best_count = count;
    }
    const SharedTable& shared = shared_table(slot, best_set);
    chosen.tables[slot] = cut_table(shared.table, best_count);
    chosen.codes[slot] = shared.codes;
    chosen.bits += best;
    if (slot == kAcLuma) chosen.set = static_cast<int>(best_set);
  }
  return chosen;
}

// Returns the number of bits of the file that do not depend on the choice of tables.
uint64_t other_bits(const Symbols& symbols, size_t slots, size_t header_bytes) {
  uint64_t bits = 8 * (header_bytes + 3 * symbols.segment_ends.size());
  for (size_t slot = 0; slot < slots; ++slot) {
    for (size_t symbol = 0; symbol < 256; ++symbol) {
      bits += uint64_t{symbols.histograms[slot][symbol]} * (symbol & 15);
    }
  }
  return bits;
}

SelectedTables choose_tables(const Symbols& symbols, size_t slots, const Header& header,
                             size_t header_bytes, TableMode choice) {
  if (choice == TableMode::kPrivate) return private_tables(symbols, slots);
  SelectedTables shared = shared_tables(symbols, slots);
  const bool small = header.mcu_count() < kSmallMcus;
  if (choice == TableMode::kShared || small) return shared;
  SelectedTables own = private_tables(symbols, slots);
  const uint64_t whole = shared.bits + other_bits(symbols, slots, header_bytes);
  const bool worth =
      own.bits < shared.bits && (shared.bits - own.bits) * 100 > whole * kPrivateGainPercent;
  return worth ? own : shared;
}

void append(ByteVector* out, std::initializer_list<int> bytes) {
  for (const int byte : bytes) out->push_back(static_cast<uint8_t>(byte));
}

// Writes the quantisation tables. Returns whether any table has values above 255, which baseline
// does not allow: the frame is then SOF1.
bool write_quantisation(const Header& header, const Coefficients& coefficients, ByteVector* out) {
  bool any_wide = false;
  std::array<bool, 4> written{};
  for (size_t c = 0; c < static_cast<size_t>(header.component_count); ++c) {
    const uint8_t number = header.components[c].quant_table;
    if (std::exchange(written[number], true)) continue;
    const auto& values = coefficients.quant[c];
    const bool wide = std::ranges::any_of(values, [](uint16_t value) { return value > 255; });
    any_wide |= wide;
    append(out, {0xFF, kDqt, 0, wide ? 131 : 67, (wide ? 0x10 : 0) | number});
    for (const uint16_t value : values) {
      if (wide) out->push_back(static_cast<uint8_t>(value >> 8));
      out->push_back(static_cast<uint8_t>(value));
    }
  }
  return any_wide;
}

void write_frame(const Header& header, bool extended, ByteVector* out) {
  const int count = header.component_count;
  append(out, {0xFF, extended ? kSof1 : kSof0, 0, 8 + 3 * count, 8,
               static_cast<int>(header.height >> 8), static_cast<int>(header.height & 255),
               static_cast<int>(header.width >> 8), static_cast<int>(header.width & 255), count});
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const Component& c = header.components[i];
    append(out, {c.id, c.horizontal << 4 | c.vertical, c.quant_table});
  }
}

void write_huffman(std::span<const HuffmanTable> tables, ByteVector* out) {
  uint32_t length = 2;
  for (const HuffmanTable& table : tables) length += table.dht_bytes();
  append(out, {0xFF, kDht, static_cast<int>(length >> 8), static_cast<int>(length & 255)});
  for (size_t slot = 0; slot < tables.size(); ++slot) {
    const HuffmanTable& table = tables[slot];
    append(out, {static_cast<int>((is_ac(slot) ? 0x10 : 0) | slot / 2)});
    out->insert(out->end(), table.bits.begin(), table.bits.end());
    out->insert(out->end(), table.values.begin(), table.values.begin() + table.count);
  }
}

void write_scan_header(const Header& header, uint32_t interval, ByteVector* out) {
  if (interval != 0) {
    append(out,
           {0xFF, kDri, 0, 4, static_cast<int>(interval >> 8), static_cast<int>(interval & 255)});
  }
  const int count = header.component_count;
  append(out, {0xFF, kSos, 0, 6 + 2 * count, count});
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    append(out, {header.components[i].id, i == 0 ? 0x00 : 0x11});
  }
  append(out, {0, 63, 0});
}

Result<Rewritten> write_file(Bytes source, const Header& header, const RewriteOptions& options,
                             uint32_t interval, const Workspace& work) {
  Rewritten out;
  append(&out.file, {0xFF, kSoi});
  RETURN_IF_ERROR(copy_metadata(source, &out.file));
  const bool extended = write_quantisation(header, work.coefficients, &out.file);
  write_frame(header, extended, &out.file);
  const size_t slots = slots_of(header);
  const SelectedTables chosen =
      choose_tables(work.symbols, slots, header, out.file.size(), options.tables);
  out.table_set = chosen.set;
  write_huffman({chosen.tables.data(), slots}, &out.file);
  write_scan_header(header, interval, &out.file);
  out.index.header_bytes = static_cast<uint32_t>(out.file.size());
  out.index.header_crc32c = base::crc32c(out.file);
  write_scan(work.symbols, chosen.codes, &out.file, &out.index.segments);
  append(&out.file, {0xFF, kEoi});
  ASSIGN_OR_RETURN(out.header, parse_header(out.file));
  return out;
}

}  // namespace

Result<Rewritten> rewrite(Bytes source, const RewriteOptions& options) {
  if (options.restart_interval.value_or(0) > 65535) {
    return fail(Code::kInvalid, "restart interval is {}, but must be at most 65535 MCUs",
                *options.restart_interval);
  }
  ASSIGN_OR_RETURN(const Header header, parse_header(source));
  RETURN_IF_ERROR(check_supported(header));
  thread_local Workspace work;
  RETURN_IF_ERROR(work.reader.read(source, header, &work.coefficients));
  const uint32_t interval = restart_interval(header, options.restart_interval);
  RETURN_IF_ERROR(collect_symbols(header, work.coefficients, interval, work.kernel, &work.symbols));
  Result<Rewritten> result = write_file(source, header, options, interval, work);
  work.trim();
  return result;
}

}  // namespace forebay::jpeg
