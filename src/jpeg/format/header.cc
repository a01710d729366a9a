#include "jpeg/format/header.h"

#include <algorithm>

#include "base/limits.h"
#include "jpeg/format/markers.h"

namespace forebay::jpeg {
namespace {

using base::Code;
using base::fail;

uint32_t largest(const Header& header, uint8_t Component::* factor) {
  uint32_t most = 1;
  for (int i = 0; i < header.component_count; ++i) {
    most = std::max<uint32_t>(most, header.components[static_cast<size_t>(i)].*factor);
  }
  return most;
}

bool is_sof(uint8_t code) {
  return code >= kSof0 && code <= kSof15 && code != kDht && code != kJpg && code != kDac;
}

Coding coding_of(uint8_t sof) {
  switch (sof) {
    case kSof0:
      return Coding::kBaseline;
    case kSof1:
      return Coding::kExtended;
    case kSof2:
      return Coding::kProgressive;
    case kSof3:
      return Coding::kLossless;
    default:
      return Coding::kOther;
  }
}

Status check_size(uint32_t width, uint32_t height) {
  if (height == 0) {
    return fail(Code::kUnsupported, "JPEG: the height is given after the image (DNL)");
  }
  if (width == 0) return fail(Code::kCorrupt, "JPEG: the frame is 0 pixels wide");
  return base::check_image_size("JPEG", width, height);
}

// Reads a frame header, SOFn (T.81 B.2.2).
Status read_frame(const Marker& marker, Header* header) {
  const Bytes p = marker.payload;
  if (p.size() < 6 || p.size() != 6 + size_t{3} * p[5] || p[5] == 0) {
    return fail(Code::kCorrupt, "JPEG: byte {}: malformed frame header of {} bytes", marker.offset,
                p.size());
  }
  header->coding = coding_of(marker.code);
  header->precision = p[0];
  header->height = load_be16(p, 1);
  header->width = load_be16(p, 3);
  header->component_count = p[5];
  RETURN_IF_ERROR(check_size(header->width, header->height));
  if (header->component_count > base::kJpegComponentsMax) {
    return fail(Code::kUnsupported, "JPEG: {} components; at most {} are supported", p[5],
                base::kJpegComponentsMax);
  }
  for (size_t i = 0; i < p[5]; ++i) {
    const Bytes c = p.subspan(6 + 3 * i, 3);
    const Component component{c[0], static_cast<uint8_t>(c[1] >> 4),
                              static_cast<uint8_t>(c[1] & 15), c[2]};
    const bool legal = component.horizontal >= 1 && component.horizontal <= 4 &&
                       component.vertical >= 1 && component.vertical <= 4 &&
                       component.quant_table < 4;
    if (!legal) {
      return fail(
          Code::kCorrupt,
          "JPEG: component {}: sampling factors {} x {} or quantisation table {} out of range", i,
          component.horizontal, component.vertical, component.quant_table);
    }
    header->components[i] = component;
  }
  return {};
}

// Reads a scan header, SOS (T.81 B.2.3).
Status read_scan(const Marker& marker, Header* header) {
  const Bytes p = marker.payload;
  if (header->component_count == 0) {
    return fail(Code::kCorrupt, "JPEG: byte {}: a scan before the frame header", marker.offset);
  }
  const bool legal = p.size() >= 4 && p[0] >= 1 && p[0] <= header->component_count &&
                     p.size() == 4 + size_t{2} * p[0];
  if (!legal) return fail(Code::kCorrupt, "JPEG: byte {}: malformed scan header", marker.offset);
  header->first_scan_components = p[0];
  return {};
}

Status read_restart_interval(const Marker& marker, Header* header) {
  if (marker.payload.size() != 2) {
    return fail(Code::kCorrupt, "JPEG: byte {}: restart interval of {} bytes instead of 2",
                marker.offset, marker.payload.size());
  }
  header->restart_interval = load_be16(marker.payload, 0);
  return {};
}

}  // namespace

bool is_jpeg(Bytes file) {
  return file.size() >= 3 && file[0] == 0xFF && file[1] == kSoi && file[2] == 0xFF;
}

Result<Header> parse_header(Bytes file) {
  if (!is_jpeg(file)) return fail(Code::kCorrupt, "not a JPEG: it does not begin with ff d8 ff");
  if (file.size() > base::kImageBytesMax) {
    return fail(Code::kTooBig, "JPEG: file of {}; the limit is {}", base::human_bytes(file.size()),
                base::human_bytes(base::kImageBytesMax));
  }
  Header header;
  MarkerReader reader(file);
  ASSIGN_OR_RETURN(Marker marker, reader.next());
  while (true) {
    ASSIGN_OR_RETURN(marker, reader.next());
    if (marker.code == kSos) {
      RETURN_IF_ERROR(read_scan(marker, &header));
      header.header_bytes = static_cast<uint32_t>(reader.position());
      return header;
    }
    if (is_sof(marker.code)) {
      if (header.component_count != 0) return fail(Code::kCorrupt, "JPEG: two frame headers");
      RETURN_IF_ERROR(read_frame(marker, &header));
    } else if (marker.code == kDri) {
      RETURN_IF_ERROR(read_restart_interval(marker, &header));
    } else if (marker.code == kSoi || marker.code == kEoi) {
      return fail(Code::kCorrupt, "JPEG: byte {}: the image {} before its first scan",
                  marker.offset, marker.code == kSoi ? "begins again" : "ends");
    }
  }
}

std::string_view subsampling_name(Subsampling subsampling) {
  switch (subsampling) {
    case Subsampling::kUnknown:
      return "unknown";
    case Subsampling::kGray:
      return "gray";
    case Subsampling::k444:
      return "4:4:4";
    case Subsampling::k422:
      return "4:2:2";
    case Subsampling::k440:
      return "4:4:0";
    case Subsampling::k420:
      return "4:2:0";
    case Subsampling::k411:
      return "4:1:1";
    case Subsampling::k410:
      return "4:1:0";
    case Subsampling::kOther:
      return "other";
  }
  return "unknown";
}

// The names stand for chroma of 1 x 1 block in an MCU. Equal ratios in another form (2 x 2 blocks
// of everything, say) are kOther, because their MCUs differ.
Subsampling Header::subsampling() const {
  if (component_count == 1) return Subsampling::kGray;
  if (component_count != 3) return Subsampling::kOther;
  for (size_t i = 1; i < 3; ++i) {
    if (components[i].horizontal != 1 || components[i].vertical != 1) return Subsampling::kOther;
  }
  switch (components[0].horizontal * 10 + components[0].vertical) {
    case 11:
      return Subsampling::k444;
    case 21:
      return Subsampling::k422;
    case 12:
      return Subsampling::k440;
    case 22:
      return Subsampling::k420;
    case 41:
      return Subsampling::k411;
    case 42:
      return Subsampling::k410;
    default:
      return Subsampling::kOther;
  }
}

uint32_t Header::mcu_width() const {
  return component_count == 1 ? 8 : 8 * largest(*this, &Component::horizontal);
}
uint32_t Header::mcu_height() const {
  return component_count == 1 ? 8 : 8 * largest(*this, &Component::vertical);
}
uint32_t Header::mcus_across() const { return divide_up(width, mcu_width()); }
uint32_t Header::mcus_down() const { return divide_up(height, mcu_height()); }
uint32_t Header::segment_count() const {
  return restart_interval == 0 ? 1 : divide_up(mcu_count(), restart_interval);
}

}  // namespace forebay::jpeg
