#include "jpeg/format/restart_index.h"

#include <algorithm>

#include "base/checksum.h"
#include "jpeg/format/bit_writer.h"
#include "jpeg/format/huffman_table.h"
#include "jpeg/format/markers.h"

namespace forebay::jpeg {
namespace {

using base::ByteVector;
using base::Code;
using base::fail;
using base::Rect;

constexpr uint64_t kMarkerBytes = 2;

// Whether upsampling looks at neighbouring chroma samples: libjpeg's fancy upsampling exists for
// 2:1 in one direction or both; all other ratios repeat samples (jdsample.c).
struct Context {
  bool across = false;
  bool down = false;
};
Context context_of(const Header& header) {
  Context context;
  if (header.component_count == 1) return context;
  const uint32_t most_across = header.mcu_width() / 8;
  const uint32_t most_down = header.mcu_height() / 8;
  for (size_t i = 0; i < static_cast<size_t>(header.component_count); ++i) {
    const bool half_across = most_across == 2u * header.components[i].horizontal;
    const bool half_down = most_down == 2u * header.components[i].vertical;
    const bool full_across = most_across == header.components[i].horizontal;
    const bool full_down = most_down == header.components[i].vertical;
    context.across |= half_across && (half_down || full_down);
    context.down |= half_down && (half_across || full_across);
  }
  return context;
}

void append_range(std::vector<SegmentRange>* out, SegmentRange range) {
  if (!out->empty() && range.begin <= out->back().end) {
    out->back().end = std::max(out->back().end, range.end);
  } else {
    out->push_back(range);
  }
}

// The codes that fill a component with grey: DC difference 0, then end of block.
struct FillCodes {
  uint32_t bits = 0;  // both codes, one after the other
  uint32_t length = 0;
  uint32_t blocks = 0;  // in an MCU
};

Status find_code(const HuffmanTable& table, FillCodes* fill) {
  const HuffmanCodes codes = codes_of(table);
  if (codes.length[0] == 0) {
    return fail(Code::kCorrupt, "JPEG: a Huffman table without symbol 0; grey cannot be written");
  }
  fill->bits = fill->bits << codes.length[0] | codes.code[0];
  fill->length += codes.length[0];
  return {};
}

// Reads the codes from the markers of a baseline file with one interleaved scan; `header` is its
// header.
Result<std::vector<FillCodes>> read_fill_codes(Bytes file, const Header& header) {
  TableBytes tables;
  MarkerReader reader(file);
  Marker marker;
  do {
    ASSIGN_OR_RETURN(marker, reader.next());
    for (size_t at = 0; marker.code == kDht && at < marker.payload.size();) {
      RETURN_IF_ERROR(read_table(marker.payload, &at, &tables));
    }
  } while (marker.code != kSos);
  const Bytes scan = marker.payload;
  std::vector<FillCodes> out;
  for (size_t i = 0; i < static_cast<size_t>(header.component_count); ++i) {
    const Component& component = header.components[i];
    const uint8_t id = scan[1 + 2 * i];
    const uint8_t numbers = scan[2 + 2 * i];
    if (id != component.id || (numbers & 0xCC) != 0) {
      return fail(Code::kCorrupt, "JPEG: component {} of the scan header is malformed", i);
    }
    FillCodes fill;
    RETURN_IF_ERROR(find_code(table_of(tables[numbers >> 4u]), &fill));
    RETURN_IF_ERROR(find_code(table_of(tables[4 + (numbers & 3u)]), &fill));
    fill.blocks =
        header.component_count == 1 ? 1 : uint32_t{component.horizontal} * component.vertical;
    out.push_back(fill);
  }
  return out;
}

ByteVector grey_segment(const std::vector<FillCodes>& codes, uint32_t mcus) {
  ByteVector out;
  BitWriter writer(&out, 0);
  for (uint32_t mcu = 0; mcu < mcus; ++mcu) {
    for (const FillCodes& fill : codes) {
      for (uint32_t block = 0; block < fill.blocks; ++block) {
        // Writes the upper 16 bits, then the lower ones.
        writer.put(fill.bits >> 16, fill.length > 16 ? fill.length - 16 : 0);
        writer.put(fill.bits & 0xFFFF, std::min(fill.length, 16u));
      }
    }
  }
  writer.finish();
  out.resize(writer.used());
  return out;
}

Status check_header(const RestartIndex& index, Bytes header_bytes, const Header& header) {
  if (header.header_bytes != index.header_bytes) {
    return fail(Code::kCorrupt, "JPEG: its header ends at byte {}, but its restart index says {}",
                header.header_bytes, index.header_bytes);
  }
  const bool sequential = header.coding == Coding::kBaseline || header.coding == Coding::kExtended;
  if (!sequential || header.first_scan_components != header.component_count) {
    return fail(Code::kCorrupt,
                "JPEG: not a sequential file with one scan, so its regions cannot be read alone");
  }
  if (header.segment_count() != index.segments.size()) {
    return fail(Code::kCorrupt, "JPEG: {} restart segments, but its restart index has {}",
                header.segment_count(), index.segments.size());
  }
  if (base::crc32c(header_bytes) != index.header_crc32c) {
    return fail(Code::kCorrupt, "JPEG: the header's checksum does not match");
  }
  return {};
}

Status check_parts(const RestartIndex& index, const std::vector<SegmentRange>& ranges,
                   const std::vector<Bytes>& parts) {
  if (ranges.size() != parts.size()) {
    return fail(Code::kInvalid, "{} ranges of segments, but {} parts", ranges.size(), parts.size());
  }
  uint32_t last_end = 0;
  for (const SegmentRange& range : ranges) {
    if (range.begin < last_end || range.end <= range.begin || range.end > index.segments.size()) {
      return fail(Code::kInvalid, "segments [{}, {}) of {} are out of order or out of range",
                  range.begin, range.end, index.segments.size());
    }
    last_end = range.end;
  }
  const std::vector<ByteRange> places = places_of(index, ranges);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].size() != places[i].length) {
      return fail(Code::kInvalid, "segments [{}, {}) have {} bytes, but their part has {}",
                  ranges[i].begin, ranges[i].end, places[i].length, parts[i].size());
    }
  }
  return {};
}

// Appends segments to a file, with the restart markers between them.
class Composer {
 public:
  Composer(const RestartIndex& index, ByteVector* out) : index_(index), out_(*out) {}

  void fill(uint32_t until, const ByteVector& grey, const ByteVector& last) {
    while (next_ < until) add(next_ + 1 == index_.segments.size() ? last : grey);
  }
  Status copy(const SegmentRange& range, Bytes part) {
    size_t at = 0;
    while (next_ < range.end) {
      const SegmentEntry& segment = index_.segments[next_];
      const Bytes data = part.subspan(at, segment.length);
      if (segment_check(data) != segment.check) {
        return fail(Code::kCorrupt, "JPEG: segment {} is damaged: its checksum does not match",
                    next_);
      }
      at += std::min<size_t>(segment.length + kMarkerBytes, part.size() - at);
      add(data);
    }
    return {};
  }

 private:
  void add(Bytes data) {
    out_.insert(out_.end(), data.begin(), data.end());
    const bool last = ++next_ == index_.segments.size();
    out_.push_back(0xFF);
    out_.push_back(last ? kEoi : static_cast<uint8_t>(kRst0 + (next_ - 1) % 8));
  }

  const RestartIndex& index_;
  ByteVector& out_;
  uint32_t next_ = 0;
};

}  // namespace

uint16_t segment_check(base::Bytes segment) { return static_cast<uint16_t>(base::crc32c(segment)); }

uint64_t RestartIndex::file_bytes() const {
  uint64_t bytes = header_bytes + kMarkerBytes * std::max<size_t>(segments.size(), 1);
  for (const SegmentEntry& segment : segments) bytes += segment.length;
  return bytes;
}

std::vector<SegmentRange> segments_for_region(const Header& header, const Rect& region) {
  std::vector<SegmentRange> out;
  if (!region.inside(header.width, header.height)) return out;
  if (header.restart_interval == 0) return {{0, 1}};
  const Context context = context_of(header);
  const uint32_t extra_x = context.across ? 1 : 0;
  const uint32_t extra_y = context.down ? 1 : 0;
  // One pixel beyond the region lies in the next chroma sample, or in the last one of the region.
  const uint32_t left = (region.x - std::min(region.x, extra_x)) / header.mcu_width();
  const uint32_t top = (region.y - std::min(region.y, extra_y)) / header.mcu_height();
  const uint32_t right =
      std::min(region.x + region.width - 1 + extra_x, header.width - 1) / header.mcu_width();
  const uint32_t bottom =
      std::min(region.y + region.height - 1 + extra_y, header.height - 1) / header.mcu_height();
  for (uint32_t y = top; y <= bottom; ++y) {
    const uint32_t row = y * header.mcus_across();
    append_range(&out, {(row + left) / header.restart_interval,
                        (row + right) / header.restart_interval + 1});
  }
  return out;
}

std::vector<ByteRange> places_of(const RestartIndex& index,
                                 const std::vector<SegmentRange>& ranges) {
  std::vector<ByteRange> out;
  out.reserve(ranges.size());
  uint64_t offset = index.header_bytes;
  uint32_t at = 0;
  for (const SegmentRange& range : ranges) {
    FOREBAY_CHECK(at <= range.begin && range.begin < range.end &&
                  range.end <= index.segments.size());
    for (; at < range.begin; ++at) offset += index.segments[at].length + kMarkerBytes;
    const uint64_t begin = offset;
    for (; at < range.end; ++at) offset += index.segments[at].length + kMarkerBytes;
    out.push_back({begin, offset - kMarkerBytes - begin});
  }
  return out;
}

Result<RegionPlan> plan_region(const RestartIndex& index, Bytes header, const Rect& region) {
  ASSIGN_OR_RETURN(const Header parsed, parse_header(header));
  RETURN_IF_ERROR(check_header(index, header, parsed));
  if (!region.inside(parsed.width, parsed.height)) {
    return fail(Code::kInvalid, "region {} x {} at ({}, {}) is not inside the {} x {} image",
                region.width, region.height, region.x, region.y, parsed.width, parsed.height);
  }
  RegionPlan plan;
  plan.segments = segments_for_region(parsed, region);
  plan.places = places_of(index, plan.segments);
  return plan;
}

Result<ByteVector> compose_region(const RestartIndex& index, Bytes header,
                                  const std::vector<SegmentRange>& ranges,
                                  const std::vector<Bytes>& parts) {
  ASSIGN_OR_RETURN(const Header parsed, parse_header(header));
  RETURN_IF_ERROR(check_header(index, header, parsed));
  RETURN_IF_ERROR(check_parts(index, ranges, parts));
  ASSIGN_OR_RETURN(const std::vector<FillCodes> codes, read_fill_codes(header, parsed));
  const uint32_t count = parsed.segment_count();
  const uint32_t interval =
      parsed.restart_interval == 0 ? parsed.mcu_count() : parsed.restart_interval;
  const ByteVector last = grey_segment(codes, parsed.mcu_count() - (count - 1) * interval);
  const ByteVector grey = count > 1 ? grey_segment(codes, interval) : ByteVector();

  ByteVector out;
  out.reserve(header.size() + (grey.size() + kMarkerBytes) * count);
  out.assign(header.begin(), header.end());
  Composer composer(index, &out);
  for (size_t i = 0; i < ranges.size(); ++i) {
    composer.fill(ranges[i].begin, grey, last);
    RETURN_IF_ERROR(composer.copy(ranges[i], parts[i]));
  }
  composer.fill(count, grey, last);
  return out;
}

Result<ByteVector> extract_region(const RestartIndex& index, Bytes file, const Rect& region) {
  if (index.file_bytes() != file.size()) {
    return fail(Code::kCorrupt, "JPEG: {} bytes, but its restart index says {}", file.size(),
                index.file_bytes());
  }
  const Bytes header = file.first(index.header_bytes);
  ASSIGN_OR_RETURN(const RegionPlan plan, plan_region(index, header, region));
  std::vector<Bytes> parts;
  for (const ByteRange& place : plan.places) {
    parts.push_back(file.subspan(place.offset, place.length));
  }
  return compose_region(index, header, plan.segments, parts);
}

}  // namespace forebay::jpeg
