// Walks the marker segments of a JPEG: ITU-T T.81, B.1.1. It knows their lengths, not their
// meaning.
#pragma once

#include "jpeg/format/header.h"

namespace forebay::jpeg {

inline constexpr uint8_t kSof0 = 0xC0;
inline constexpr uint8_t kSof1 = 0xC1;
inline constexpr uint8_t kSof2 = 0xC2;
inline constexpr uint8_t kSof3 = 0xC3;
inline constexpr uint8_t kDht = 0xC4;
inline constexpr uint8_t kJpg = 0xC8;
inline constexpr uint8_t kSof15 = 0xCF;
inline constexpr uint8_t kDac = 0xCC;
inline constexpr uint8_t kRst0 = 0xD0;
inline constexpr uint8_t kRst7 = 0xD7;
inline constexpr uint8_t kSoi = 0xD8;
inline constexpr uint8_t kEoi = 0xD9;
inline constexpr uint8_t kSos = 0xDA;
inline constexpr uint8_t kDqt = 0xDB;
inline constexpr uint8_t kDri = 0xDD;
inline constexpr uint8_t kApp0 = 0xE0;
inline constexpr uint8_t kApp14 = 0xEE;
inline constexpr uint8_t kApp15 = 0xEF;
inline constexpr uint8_t kCom = 0xFE;

// Whether a marker's segment only describes the image: APPn and COM.
constexpr bool is_metadata(uint8_t code) {
  return (code >= kApp0 && code <= kApp15) || code == kCom;
}

struct Marker {
  uint8_t code = 0;
  size_t offset = 0;  // where fill bytes or stray bytes before the code begin
  Bytes payload;      // after the length field; empty for markers without one
};

class MarkerReader {
 public:
  explicit MarkerReader(Bytes file) : file_(file) {}
  // Returns the next marker. Like libjpeg, it skips bytes before the marker that belong to no
  // segment, and APPn or COM segments whose length is below 2. kCorrupt if there is no further
  // marker, or the length of its segment is invalid.
  Result<Marker> next();
  // Whether next() has skipped stray bytes or a segment with such a length so far.
  bool found_stray_bytes() const { return stray_; }
  // Skips entropy-coded data, including restart markers, up to the next marker or the end.
  void skip_scan();
  size_t position() const { return position_; }

 private:
  Result<uint8_t> next_code();

  Bytes file_;
  size_t position_ = 0;
  bool stray_ = false;
};

// Returns the big-endian number at payload[at]. The caller has checked the length.
inline uint16_t load_be16(Bytes payload, size_t at) {
  return static_cast<uint16_t>(payload[at] << 8 | payload[at + 1]);
}

}  // namespace forebay::jpeg
