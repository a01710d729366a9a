#include "image/codec/jpeg_metadata.h"

#include <algorithm>

#include "jpeg/format/markers.h"

namespace forebay::image {

using base::ByteVector;
using jpeg::MetadataSegment;

namespace {

constexpr size_t kPayloadBytes = 65533;  // in one segment
constexpr size_t kIccParts = 255;        // the most parts of a profile (ICC.1:2010, B.4)
constexpr uint8_t kApp1 = jpeg::kApp0 + 1;
constexpr uint8_t kApp2 = jpeg::kApp0 + 2;
// How the payloads of segments begin, with the zero bytes that belong to these names.
constexpr std::string_view kExif("Exif\0\0", 6);
constexpr std::string_view kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
constexpr std::string_view kIcc("ICC_PROFILE\0", 12);
constexpr std::string_view kMpf("MPF\0", 4);
constexpr std::string_view kAdobe("Adobe");
// Version 1.1, square pixels without a unit, and no thumbnail.
constexpr std::string_view kJfif("JFIF\0\1\1\0\0\1\0\1\0\0", 14);

bool begins_with(Bytes payload, std::string_view name) {
  return base::as_text(payload).starts_with(name);
}

bool is_true_no_more(const jpeg::Marker& marker, const jpeg::Header& header) {
  if (marker.code == jpeg::kApp14) return begins_with(marker.payload, kAdobe);
  if (marker.code != kApp2) return false;
  return begins_with(marker.payload, kMpf) ||
         (header.component_count == 4 && begins_with(marker.payload, kIcc));
}

MetadataSegment segment(uint8_t code, std::string_view name, Bytes data) {
  MetadataSegment out{.code = code, .payload = ByteVector(name.begin(), name.end())};
  out.payload.insert(out.payload.end(), data.begin(), data.end());
  return out;
}

void append_whole(std::string_view name, Bytes data, std::vector<MetadataSegment>* out) {
  if (data.empty() || data.size() > kPayloadBytes - name.size()) return;
  out->push_back(segment(kApp1, name, data));
}

void append_icc(Bytes profile, std::vector<MetadataSegment>* out) {
  constexpr size_t kPartBytes = kPayloadBytes - kIcc.size() - 2;
  const size_t parts = (profile.size() + kPartBytes - 1) / kPartBytes;
  if (parts > kIccParts) return;
  for (size_t part = 0; part < parts; ++part) {
    std::string name(kIcc);
    name += static_cast<char>(part + 1);
    name += static_cast<char>(parts);
    const size_t begin = part * kPartBytes;
    const size_t bytes = std::min(kPartBytes, profile.size() - begin);
    out->push_back(segment(kApp2, name, profile.subspan(begin, bytes)));
  }
}

}  // namespace

std::vector<MetadataSegment> segments_of_jpeg(const Encoded& source) {
  std::vector<MetadataSegment> out;
  jpeg::MarkerReader reader(source.file);
  for (auto marker = reader.next(); marker && marker->code != jpeg::kEoi; marker = reader.next()) {
    if (marker->code == jpeg::kSos) reader.skip_scan();
    if (!jpeg::is_metadata(marker->code) || is_true_no_more(*marker, source.jpeg)) continue;
    out.push_back(segment(marker->code, {}, marker->payload));
  }
  return out;
}

std::vector<MetadataSegment> segments_for(const Metadata& metadata) {
  std::vector<MetadataSegment> out = {segment(jpeg::kApp0, kJfif, {})};
  // Some writers of WebP put the prefix that EXIF has in a JPEG into the file.
  const Bytes exif(metadata.exif);
  append_whole(kExif, exif.subspan(begins_with(exif, kExif) ? kExif.size() : 0), &out);
  append_whole(kXmp, metadata.xmp, &out);
  append_icc(metadata.icc, &out);
  return out;
}

}  // namespace forebay::image
