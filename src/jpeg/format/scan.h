// All that is needed to decode the one scan of a sequential JPEG: tables, components, colours, and
// where its entropy-coded data lies. libjpeg-turbo decodes all other files (decode.h).
#pragma once

#include <optional>

#include "jpeg/format/header.h"
#include "jpeg/format/huffman_table.h"

namespace forebay::jpeg {

enum class Colour : uint8_t { kGrey, kYcc, kRgb };

struct ScanComponent {
  uint32_t horizontal = 1;  // sampling factors; 1 in an image of one component
  uint32_t vertical = 1;
  std::array<uint16_t, 64> quant{};  // in zigzag order
  uint8_t dc = 0;                    // the DC table in Scan::tables
  uint8_t ac = 0;
  uint32_t side = 8;  // a block becomes side x side samples: 8, 4, 2 or 1
};

struct Scan {
  Header header;
  Colour colour = Colour::kYcc;
  int component_count = 0;
  uint32_t scale = 1;  // image pixels for one decoded pixel, across and down
  // Whether needed segments are decoded to their ends, so that all damage in them is found.
  bool whole_segments = false;
  std::array<ScanComponent, 3> components{};
  TableBytes tables{};  // pointing into the file
};

// Accepts Huffman-coded files of 8 bits that have one or three components in one scan and define
// every table before the scan. Returns nothing for other or malformed files; libjpeg-turbo handles
// these and reports their errors. `header` is the result of parse_header(), `scale` is
// RegionRequest::scale.
std::optional<Scan> read_scan(Bytes file, const Header& header, uint32_t scale = 1);

}  // namespace forebay::jpeg
