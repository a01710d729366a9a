#include "image/codec/orientation_tag.h"

#include <zlib.h>

#include <array>
#include <bitset>

#include "image/codec/webp.h"
#include "jpeg/format/markers.h"

namespace forebay::image {

using base::ByteVector;
using namespace std::string_view_literals;

namespace {

constexpr uint32_t kTag = 0x0112;
constexpr std::string_view kExif = "Exif\0\0"sv;
constexpr std::string_view kXmp = "http://ns.adobe.com/xap/1.0/\0"sv;
constexpr std::string_view kXmpOfPng = "XML:com.adobe.xmp\0"sv;

bool begins_with(Bytes data, std::string_view text) {
  return base::as_text(data).starts_with(text);
}

// The types of a tag's values, by number: how many bytes a value has, and whether it is an integer,
// because only an integer can be an orientation. Tags of other types are skipped.
struct Type {
  uint32_t bytes = 0;
  bool is_whole = false;
};
constexpr std::array<Type, 17> kTypes = {{{},
                                          {1, false},  // BYTE, which Pillow reads as text
                                          {1, false},  // ASCII
                                          {2, true},   // SHORT
                                          {4, true},   // LONG
                                          {8, false},  // RATIONAL
                                          {1, true},   // SBYTE
                                          {1, false},  // UNDEFINED
                                          {2, true},   // SSHORT
                                          {4, true},   // SLONG
                                          {8, false},  // SRATIONAL
                                          {4, false},  // FLOAT
                                          {8, false},  // DOUBLE
                                          {4, true},   // IFD
                                          {},
                                          {},
                                          {8, true}}};  // LONG8

// Reads a TIFF's numbers in its byte order. Offsets must be inside the data.
class Tiff {
 public:
  explicit Tiff(Bytes data) : data_(data), little_(data[0] == 'I') {}
  uint64_t number(size_t at, uint32_t bytes) const {
    uint64_t out = 0;
    for (uint32_t i = 0; i < bytes; ++i) {
      out = out << 8 | data_[at + (little_ ? bytes - 1 - i : i)];
    }
    return out;
  }

 private:
  Bytes data_;
  bool little_;
};

// Returns the value of the orientation tag in a TIFF's first directory, or nothing if the directory
// does not have it. A value other than 2 to 8 means that the image is shown as it is stored. Reads
// malformed metadata as far as Pillow does, so that both find the same value.
std::optional<uint64_t> value_in_tiff(Bytes data) {
  if (data.size() < 8 || (!begins_with(data, "II") && !begins_with(data, "MM"))) return {};
  const std::string_view version = base::as_text(data.subspan(2, 2));
  if (version != "*\0"sv && version != "\0*"sv) return {};
  const Tiff tiff(data);
  const uint64_t directory = tiff.number(4, 4);
  if (!base::in_bounds(directory, 2, data.size())) return {};
  const uint64_t count = tiff.number(directory, 2);
  uint64_t bytes_elsewhere = 0;
  std::bitset<1 << 16> known;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t entry = directory + 2 + 12 * i;
    if (!base::in_bounds(entry, 12, data.size())) return {};
    const uint64_t tag = tiff.number(entry, 2);
    const uint64_t type_number = tiff.number(entry + 2, 2);
    const uint64_t values = tiff.number(entry + 4, 4);
    if (known[tag] || type_number >= kTypes.size()) continue;
    const Type type = kTypes[type_number];
    const uint64_t bytes = values * type.bytes;
    if (bytes == 0) continue;
    uint64_t place = entry + 8;
    if (bytes > 4) {
      bytes_elsewhere += bytes;
      if (bytes_elsewhere > data.size()) continue;
      place = tiff.number(entry + 8, 4);
      if (!base::in_bounds(place, bytes, data.size())) return {};
    }
    known[tag] = true;
    if (tag == kTag) return type.is_whole ? tiff.number(place, type.bytes) : 0;
  }
  return {};
}

// Reads EXIF as it is stored in a file. Some writers put the prefix "Exif" before it, even twice.
std::optional<uint64_t> value_in_exif(Bytes exif) {
  for (int i = 0; i < 2 && begins_with(exif, kExif); ++i) exif = exif.subspan(kExif.size());
  return value_in_tiff(exif);
}

std::optional<uint64_t> value_in_xmp(std::string_view xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = xmp.find(kName); at != xmp.npos; at = xmp.find(kName, at)) {
    at += kName.size();
    std::string_view rest = xmp.substr(at);
    if (rest.starts_with("=\"")) {
      rest.remove_prefix(2);
    } else if (rest.starts_with('>')) {
      rest.remove_prefix(1);
    } else {
      continue;
    }
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') return rest[0] - '0';
  }
  return {};
}

// Reads the segments before the first scan. EXIF may be divided into several segments.
std::optional<uint64_t> value_in_jpeg(Bytes file) {
  constexpr uint8_t kApp1 = jpeg::kApp0 + 1;
  Bytes exif;
  ByteVector joined;
  Bytes xmp;
  jpeg::MarkerReader reader(file);
  for (auto marker = reader.next(); marker && marker->code != jpeg::kSos; marker = reader.next()) {
    if (marker->code != kApp1) continue;
    if (begins_with(marker->payload, kXmp)) xmp = marker->payload.subspan(kXmp.size());
    if (!begins_with(marker->payload, kExif)) continue;
    if (exif.empty()) {
      exif = marker->payload;
      continue;
    }
    if (joined.empty()) joined.assign(exif.begin(), exif.end());
    joined.insert(joined.end(), marker->payload.begin() + kExif.size(), marker->payload.end());
  }
  const auto value = value_in_exif(joined.empty() ? exif : Bytes(joined));
  return value ? value : value_in_xmp(base::as_text(xmp));
}

// Returns the text of an iTXt chunk. `chunk` holds the bytes after its keyword (ISO/IEC 15948,
// 11.3.4.5). Empty if the text is compressed.
std::string_view plain_text(std::string_view chunk) {
  if (chunk.size() < 2 || chunk[0] != 0) return {};
  chunk.remove_prefix(2);
  for (int i = 0; i < 2; ++i) {  // the language, and the keyword in it
    const size_t end = chunk.find('\0');
    if (end == chunk.npos) return {};
    chunk.remove_prefix(end + 1);
  }
  return chunk;
}

uint32_t load_be32(Bytes from, size_t at) {
  return uint32_t{jpeg::load_be16(from, at)} << 16 | jpeg::load_be16(from, at + 2);
}

// Chunks may also follow the pixels' data. Chunks with a wrong checksum are ignored.
std::optional<uint64_t> value_in_png(Bytes file) {
  constexpr size_t kSignatureBytes = 8;
  constexpr size_t kAround = 12;  // bytes of a chunk's length, name and checksum
  Bytes exif;
  std::string_view xmp;
  size_t at = kSignatureBytes;
  while (base::in_bounds(at, kAround, file.size())) {
    const size_t length = load_be32(file, at);
    if (!base::in_bounds(at, kAround + length, file.size())) break;
    const std::string_view name = base::as_text(file.subspan(at + 4, 4));
    if (name == "IEND") break;
    if (name == "eXIf" || name == "iTXt") {
      const Bytes data = file.subspan(at + 8, length);
      const auto checksum = crc32(0, file.data() + at + 4, static_cast<uInt>(length + 4));
      if (checksum == load_be32(file, at + 8 + length)) {
        if (name == "eXIf") exif = data;
        if (name == "iTXt" && begins_with(data, kXmpOfPng)) {
          xmp = plain_text(base::as_text(data).substr(kXmpOfPng.size()));
        }
      }
    }
    at += kAround + length;
  }
  const auto value = value_in_exif(exif);
  return value ? value : value_in_xmp(xmp);
}

std::optional<uint64_t> value_in_webp(Bytes file) {
  const auto content = read_webp_content(file);
  if (!content) return {};
  const auto value = value_in_exif(content->metadata.exif);
  return value ? value : value_in_xmp(base::as_text(content->metadata.xmp));
}

std::optional<uint64_t> value_in(Format format, Bytes file) {
  switch (format) {
    case Format::kJpeg:
      return value_in_jpeg(file);
    case Format::kPng:
      return value_in_png(file);
    case Format::kWebp:
      return value_in_webp(file);
    case Format::kUnknown:
      break;
  }
  return {};
}

}  // namespace

Orientation read_orientation(Format format, Bytes file) {
  switch (value_in(format, file).value_or(1)) {
    case 2:
      return {.across = true};
    case 3:
      return {.across = true, .down = true};
    case 4:
      return {.down = true};
    case 5:
      return {.transposed = true};
    case 6:
      return {.down = true, .transposed = true};
    case 7:
      return {.across = true, .down = true, .transposed = true};
    case 8:
      return {.across = true, .transposed = true};
    default:
      return {};
  }
}

}  // namespace forebay::image
