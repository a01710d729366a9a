// Where the restart segments of a rewritten JPEG lie, so that a region of the image can be read
// and decoded without the rest. Document: docs/format.md, "restart index".
#pragma once

#include <cstdint>
#include <vector>

#include "jpeg/header.h"

namespace forebay::jpeg {

struct Segment {
  // Bytes of entropy-coded data, the restart marker behind it not counted.
  uint32_t length = 0;
  // The low 16 bits of the CRC32C of those bytes.
  uint16_t check = 0;

  bool operator==(const Segment&) const = default;
};

// The file is: header_bytes of markers; then the segments in order, each but the last followed by
// a 2-byte RSTn; then a 2-byte EOI.
struct RestartIndex {
  uint32_t header_bytes = 0;
  uint32_t header_crc32c = 0;
  std::vector<Segment> segments;

  bool operator==(const RestartIndex&) const = default;
  // Bytes of the whole file.
  uint64_t file_bytes() const;
};

// Segments [begin, end).
struct SegmentRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool operator==(const SegmentRange&) const = default;
};

// The segments that decoding `region` exactly needs, the pixels that chroma upsampling looks at
// beyond its border included; ascending, neighbours joined.
std::vector<SegmentRange> segments_for_region(const Header& header, const base::Rect& region);

struct ByteRange {
  uint64_t offset = 0;
  uint64_t length = 0;
  bool operator==(const ByteRange&) const = default;
};

// What has to be read of a file for a region of its image: these segments, at these places.
struct RegionPlan {
  std::vector<SegmentRange> segments;
  std::vector<ByteRange> places;
};
// `header` is the file's first header_bytes. Nothing is taken on trust: kCorrupt where the header
// and the index contradict each other, kInvalid for a region outside the image.
Result<RegionPlan> plan_region(const RestartIndex& index, Bytes header, const base::Rect& region);

// A whole, valid JPEG from a part of one: `header` is the file's first header_bytes; `parts` are
// the bytes at plan_region()'s places. Segments that were not read become blocks of plain grey.
// Checks the header's and every segment's checksum (kCorrupt, with the segment's number).
Result<base::ByteVector> compose_region(const RestartIndex& index, Bytes header,
                                        const std::vector<SegmentRange>& ranges,
                                        const std::vector<Bytes>& parts);
// The same from a file that is in memory as a whole: plan_region(), then compose_region().
Result<base::ByteVector> extract_region(const RestartIndex& index, Bytes file,
                                        const base::Rect& region);

}  // namespace forebay::jpeg
