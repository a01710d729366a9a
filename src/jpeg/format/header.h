// Reads the headers of a JPEG file that come before its entropy-coded data: ITU-T T.81 (JPEG),
// Annex B. Huffman and quantisation tables are not read here; see scan.h.
#pragma once

#include <array>
#include <cstdint>

#include "base/limits.h"
#include "base/pixels.h"

namespace forebay::jpeg {

using base::Bytes;
using base::Result;
using base::Status;

enum class Coding : uint8_t {
  kBaseline,     // SOF0
  kExtended,     // SOF1, Huffman
  kProgressive,  // SOF2
  kLossless,     // SOF3
  kOther,        // arithmetic, hierarchical
};

// What to do with an image whose entropy-coded data is damaged.
enum class Damaged : uint8_t {
  kRefuse,  // fail with kCorrupt
  kDecode,  // libjpeg-turbo decodes a JPEG as far as it can; other formats: like kRefuse
};

// Chroma subsampling by its usual names. Indexes store the values, so these never change.
enum class Subsampling : uint8_t {
  kUnknown = 0,  // not a JPEG, or not read
  kGray = 1,
  k444 = 2,
  k422 = 3,
  k440 = 4,
  k420 = 5,
  k411 = 6,
  k410 = 7,
  kOther = 8,
};
std::string_view subsampling_name(Subsampling subsampling);

struct Component {
  uint8_t id = 0;
  uint8_t horizontal = 1;  // sampling factors, 1 to 4
  uint8_t vertical = 1;
  uint8_t quant_table = 0;
};

constexpr uint32_t divide_up(uint32_t a, uint32_t b) { return a / b + (a % b != 0 ? 1 : 0); }

struct Header {
  Coding coding = Coding::kBaseline;
  uint8_t precision = 8;  // bits a sample
  uint32_t width = 0;     // pixels
  uint32_t height = 0;
  int component_count = 0;
  std::array<Component, 4> components{};
  uint32_t restart_interval = 0;  // MCUs; 0: none
  // The number of bytes before the entropy-coded data of the first scan.
  uint32_t header_bytes = 0;
  // The number of components in the first scan; less than component_count when scans are not
  // interleaved.
  int first_scan_components = 0;

  Subsampling subsampling() const;
  // MCUs of an interleaved scan; for one component, an MCU is a single block (T.81 A.2).
  uint32_t mcu_width() const;   // pixels
  uint32_t mcu_height() const;  // pixels
  uint32_t mcus_across() const;
  uint32_t mcus_down() const;
  uint32_t mcu_count() const { return mcus_across() * mcus_down(); }
  // The number of restart segments of the scan; 1 without restart markers.
  uint32_t segment_count() const;
};

// Reads the markers up to the first scan, ignoring the same stray bytes as libjpeg (markers.h).
// Errors: kCorrupt (not a JPEG, or malformed), kTooBig (a side, the pixels or a length above
// base/limits.h), kUnsupported (more than four components, or a height that a DNL marker gives
// later).
Result<Header> parse_header(Bytes file);

// Whether the bytes begin like a JPEG.
bool is_jpeg(Bytes file);

}  // namespace forebay::jpeg
