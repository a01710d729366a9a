// Where the restart segments of a rewritten JPEG lie, so that a region of the image can be read and
// decoded without the rest. The format is in docs/format.md, "restart index".
#pragma once

#include <cstdint>
#include <vector>

#include "jpeg/format/header.h"

namespace forebay::jpeg {

struct SegmentEntry {
  // The number of bytes of entropy-coded data, without the restart marker after it.
  uint32_t length = 0;
  uint16_t check = 0;  // segment_check() of those bytes

  bool operator==(const SegmentEntry&) const = default;
};

// Returns the low 16 bits of the CRC32C of a segment's bytes.
uint16_t segment_check(base::Bytes segment);

// The file consists of header_bytes of markers, then the segments in order, each except the last
// followed by a 2-byte RSTn, then a 2-byte EOI.
struct RestartIndex {
  uint32_t header_bytes = 0;
  uint32_t header_crc32c = 0;
  std::vector<SegmentEntry> segments;

  bool operator==(const RestartIndex&) const = default;
  // The number of bytes of the whole file.
  uint64_t file_bytes() const;
};

// The segments [begin, end) of an index.
struct SegmentRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool operator==(const SegmentRange&) const = default;
};

// Returns the segments that are needed to decode `region` exactly, including the pixels beyond its
// border that chroma upsampling looks at. Ranges are ascending, and neighbouring ranges are joined.
std::vector<SegmentRange> segments_for_region(const Header& header, const base::Rect& region);

struct ByteRange {
  uint64_t offset = 0;
  uint64_t length = 0;
  bool operator==(const ByteRange&) const = default;
};

// Returns where these segments lie in the file, from the first byte of the first segment of a range
// to the last byte of its last segment. `ranges` ascend and are inside the index.
std::vector<ByteRange> places_of(const RestartIndex& index,
                                 const std::vector<SegmentRange>& ranges);

// What must be read from a file to decode a region of its image: these segments, at these places.
struct RegionPlan {
  std::vector<SegmentRange> segments;
  std::vector<ByteRange> places;
};
// Plans reading `region`. `header` is the first header_bytes of the file. Nothing is trusted:
// kCorrupt when the header and the index contradict each other, kInvalid when the region is not
// inside the image.
Result<RegionPlan> plan_region(const RestartIndex& index, Bytes header, const base::Rect& region);

// Makes a complete, valid JPEG from pieces of a file: `header` is the first header_bytes, `parts`
// are the bytes at the places of plan_region(). Segments that were not read become blocks of plain
// grey. Checks the checksums of the header and of every segment (kCorrupt, with the number of the
// segment).
Result<base::ByteVector> compose_region(const RestartIndex& index, Bytes header,
                                        const std::vector<SegmentRange>& ranges,
                                        const std::vector<Bytes>& parts);
// Does the same for a file that is completely in memory: plan_region(), then compose_region().
Result<base::ByteVector> extract_region(const RestartIndex& index, Bytes file,
                                        const base::Rect& region);

}  // namespace forebay::jpeg
