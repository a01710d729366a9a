// All that decoding the one scan of a sequential JPEG takes: tables, components, colours, and where
// its bits lie. Files that are anything else are libjpeg-turbo's (decode.h).
#pragma once

#include <optional>

#include "jpeg/header.h"
#include "jpeg/huffman_table.h"

namespace forebay::jpeg {

enum class Colour : uint8_t { kGrey, kYcc, kRgb };

struct ScanComponent {
  uint32_t horizontal = 1;  // sampling factors; 1 in an image of one component
  uint32_t vertical = 1;
  std::array<uint16_t, 64> quant{};  // in zigzag order
  uint8_t dc = 0;                    // of Scan::tables
  uint8_t ac = 0;
  uint32_t side = 8;  // of the samples that are made of a block: 8, 4, 2 or 1
};

struct Scan {
  Header header;
  Colour colour = Colour::kYcc;
  int component_count = 0;
  uint32_t scale = 1;  // pixels of the image for one that is made, across and down
  // Whether segments that a region needs are decoded to their ends, where damage before them shows.
  bool whole_segments = false;
  std::array<ScanComponent, 3> components{};
  TableBytes tables{};  // in the file
};

// Nothing for a file that is not of this kind, or not quite in order: libjpeg-turbo then says what
// it is. This kind: Huffman coded, 8 bits, one or three components in one scan, every table
// defined before it. `header` is what parse_header gave, `scale` as DecodeRequest's.
std::optional<Scan> read_scan(Bytes file, const Header& header, uint32_t scale = 1);

}  // namespace forebay::jpeg
