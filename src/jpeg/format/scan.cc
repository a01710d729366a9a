#include "jpeg/format/scan.h"

#include <algorithm>

#include "jpeg/format/markers.h"

namespace forebay::jpeg {
namespace {

constexpr std::string_view kJfif("JFIF\0", 5);

// The tables and colours that the markers before a scan define.
struct Definitions {
  std::array<std::optional<std::array<uint16_t, 64>>, 4> quant;
  TableBytes huffman{};
  bool jfif = false;
  std::optional<uint8_t> adobe_transform;
};

// Reads a DQT segment (T.81 B.2.4.1).
bool read_quant(Bytes payload, Definitions* to) {
  while (!payload.empty()) {
    const bool wide = payload[0] >> 4 != 0;
    const size_t bytes = 1 + (wide ? 128 : 64);
    if (payload[0] >> 4 > 1 || (payload[0] & 15) > 3 || payload.size() < bytes) return false;
    auto& table = to->quant[payload[0] & 15].emplace();
    for (size_t k = 0; k < 64; ++k) {
      table[k] = wide ? load_be16(payload, 1 + 2 * k) : payload[1 + k];
      if (table[k] == 0) return false;
    }
    payload = payload.subspan(bytes);
  }
  return true;
}

bool read_huffman(Bytes payload, Definitions* to) {
  for (size_t at = 0; at < payload.size();) {
    if (!read_table(payload, &at, &to->huffman).ok()) return false;
  }
  return true;
}

bool begins_with(Bytes payload, std::string_view text) {
  return payload.size() >= text.size() &&
         std::equal(text.begin(), text.end(), payload.begin(),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

bool read_definition(const Marker& marker, Definitions* to) {
  switch (marker.code) {
    case kDqt:
      return read_quant(marker.payload, to);
    case kDht:
      return read_huffman(marker.payload, to);
    case kApp0:
      if (marker.payload.size() >= 14 && begins_with(marker.payload, kJfif)) to->jfif = true;
      return true;
    case kApp14:
      if (marker.payload.size() >= 12 && begins_with(marker.payload, "Adobe")) {
        to->adobe_transform = marker.payload[11];
      }
      return true;
    case kSoi:  // parse_header() has checked that it occurs once
    case kDri:
    case kSof0:
    case kSof1:
    case kCom:
      return true;
    default:
      return marker.code > kApp0 && marker.code <= kApp15;
  }
}

// Follows libjpeg's default_decompress_parms().
Colour colour_of(const Header& header, const Definitions& definitions) {
  if (header.component_count == 1) return Colour::kGrey;
  if (definitions.jfif) return Colour::kYcc;
  if (definitions.adobe_transform) {
    return *definitions.adobe_transform == 0 ? Colour::kRgb : Colour::kYcc;
  }
  const auto& c = header.components;
  const bool named_rgb = c[0].id == 'R' && c[1].id == 'G' && c[2].id == 'B';
  return named_rgb ? Colour::kRgb : Colour::kYcc;
}

// Reads the scan header (T.81 B.2.3): all components in the order of the frame, all coefficients at
// once.
bool read_selectors(Bytes scan_header, const Definitions& definitions, Scan* scan) {
  const size_t count = static_cast<size_t>(scan->component_count);
  const Bytes tail = scan_header.subspan(1 + 2 * count);
  if (tail[0] != 0 || tail[1] != 63 || tail[2] != 0) return false;
  for (size_t i = 0; i < count; ++i) {
    const Component& from = scan->header.components[i];
    const uint8_t selectors = scan_header[2 + 2 * i];
    ScanComponent& to = scan->components[i];
    to.dc = selectors >> 4;
    to.ac = static_cast<uint8_t>(4 + (selectors & 15));
    const auto& quant = definitions.quant[from.quant_table];
    if (to.dc > 3 || to.ac > 7) return false;
    // A table has 16 counts and at least one symbol.
    const Bytes dc = definitions.huffman[to.dc];
    const bool fits = scan_header[1 + 2 * i] == from.id && quant && dc.size() > 16 &&
                      definitions.huffman[to.ac].size() > 16;
    if (!fits) return false;
    // libjpeg refuses such a table, even when the symbol never occurs.
    if (std::ranges::any_of(dc.subspan(16), [](uint8_t v) { return v > 15; })) return false;
    to.quant = *quant;
    if (count > 1) {
      to.horizontal = from.horizontal;
      to.vertical = from.vertical;
    }
  }
  return true;
}

// Same rule as jdmaster.c: a component with fewer samples keeps more of them, as long as that saves
// upsampling.
void set_sides(Scan* scan) {
  const uint32_t side_min = 8 / scan->scale;
  const uint32_t across = scan->header.mcu_width() / 8 * side_min;
  const uint32_t down = scan->header.mcu_height() / 8 * side_min;
  for (ScanComponent& c : scan->components) {
    c.side = side_min;
    while (c.side < 8 && across % (c.horizontal * c.side * 2) == 0 &&
           down % (c.vertical * c.side * 2) == 0) {
      c.side *= 2;
    }
  }
}

}  // namespace

std::optional<Scan> read_scan(Bytes file, const Header& header, uint32_t scale) {
  const bool sequential = header.coding == Coding::kBaseline || header.coding == Coding::kExtended;
  const bool ours = sequential && header.precision == 8 &&
                    (header.component_count == 1 || header.component_count == 3) &&
                    header.first_scan_components == header.component_count;
  if (!ours) return std::nullopt;
  Scan scan;
  scan.header = header;
  scan.component_count = header.component_count;
  scan.scale = scale;
  Definitions definitions;
  MarkerReader reader(file);
  while (true) {
    const auto marker = reader.next();
    if (!marker) return std::nullopt;
    if (marker->code == kSos) {
      if (!read_selectors(marker->payload, definitions, &scan)) return std::nullopt;
      break;
    }
    if (!read_definition(*marker, &definitions)) return std::nullopt;
  }
  scan.colour = colour_of(header, definitions);
  scan.tables = definitions.huffman;
  set_sides(&scan);
  return scan;
}

}  // namespace forebay::jpeg
