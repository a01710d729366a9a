// For tests: EXIF with an orientation tag, files that have it, and images turned pixel by pixel.
#pragma once

#include <zlib.h>

#include "image/codec/decode.h"

namespace forebay::image {

using base::ByteVector;

inline ByteVector bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

inline void append(ByteVector* to, Bytes bytes) {
  to->insert(to->end(), bytes.begin(), bytes.end());
}

inline void append_number(ByteVector* to, uint64_t number, size_t bytes, bool little = false) {
  for (size_t i = 0; i < bytes; ++i) {
    to->push_back(static_cast<uint8_t>(number >> 8 * (little ? i : bytes - 1 - i)));
  }
}

// A TIFF whose directory has these entries: tag, type, count and the four bytes of their value.
struct TiffEntry {
  uint16_t tag = 0x0112;
  uint16_t type = 3;
  uint32_t count = 1;
  ByteVector value = {};
};
inline ByteVector make_tiff(const std::vector<TiffEntry>& entries, bool little) {
  ByteVector out = bytes_of(little ? "II" : "MM");
  append_number(&out, 42, 2, little);
  append_number(&out, 8, 4, little);
  append_number(&out, entries.size(), 2, little);
  for (const TiffEntry& entry : entries) {
    append_number(&out, entry.tag, 2, little);
    append_number(&out, entry.type, 2, little);
    append_number(&out, entry.count, 4, little);
    append(&out, entry.value);
  }
  append_number(&out, 0, 4);
  return out;
}

// Returns the value of an entry: a number of this many bytes, then zeros up to four bytes.
inline ByteVector value_of(uint64_t number, size_t bytes, bool little) {
  ByteVector out;
  append_number(&out, number, bytes, little);
  out.resize(4);
  return out;
}

inline ByteVector exif_with(uint64_t orientation, bool little = true) {
  return make_tiff({{.tag = 0x010F, .type = 2, .count = 3, .value = bytes_of({"ab\0\0", 4})},
                    {.value = value_of(orientation, 2, little)},
                    {.tag = 0x0128, .value = value_of(2, 2, little)}},
                   little);
}

// A chunk of a PNG.
inline ByteVector png_chunk(std::string_view name, Bytes data) {
  ByteVector out;
  append_number(&out, data.size(), 4);
  append(&out, bytes_of(name));
  append(&out, data);
  append_number(&out, crc32(0, out.data() + 4, static_cast<uInt>(out.size() - 4)), 4);
  return out;
}

// A PNG of these pixels, with further chunks before or after them.
inline ByteVector make_png(const Pixels& pixels, Bytes before = {}, Bytes after = {}) {
  ByteVector header;
  append_number(&header, pixels.width, 4);
  append_number(&header, pixels.height, 4);
  append(&header, bytes_of({"\x08\x02\x00\x00\x00", 5}));
  ByteVector rows;
  for (size_t y = 0; y < pixels.height; ++y) {
    rows.push_back(0);  // no filter
    append(&rows, Bytes(pixels.rgb).subspan(y * pixels.width * 3, size_t{pixels.width} * 3));
  }
  uLongf length = compressBound(rows.size());
  ByteVector packed(length);
  compress2(packed.data(), &length, rows.data(), rows.size(), 1);
  packed.resize(length);
  ByteVector out = bytes_of("\x89PNG\r\n\x1a\n");
  append(&out, png_chunk("IHDR", header));
  append(&out, before);
  append(&out, png_chunk("IDAT", packed));
  append(&out, after);
  append(&out, png_chunk("IEND", {}));
  return out;
}

// The JPEG with a segment after its first marker.
inline ByteVector with_segment(Bytes jpeg, uint8_t code, Bytes payload) {
  ByteVector out(jpeg.begin(), jpeg.begin() + 2);
  out.push_back(0xFF);
  out.push_back(code);
  append_number(&out, payload.size() + 2, 2);
  append(&out, payload);
  append(&out, jpeg.subspan(2));
  return out;
}
inline ByteVector jpeg_with_exif(Bytes jpeg, Bytes exif) {
  ByteVector payload = bytes_of({"Exif\0\0", 6});
  append(&payload, exif);
  return with_segment(jpeg, 0xE1, payload);
}

// The WebP, which is not an extended one, with a chunk of this name after its pixels.
inline ByteVector webp_with(Bytes webp, Size size, std::string_view name, Bytes data) {
  ByteVector chunks = bytes_of("VP8X");
  append_number(&chunks, 10, 4, true);
  append_number(&chunks, name == "EXIF" ? 8 : 4, 4, true);  // flags
  append_number(&chunks, size.width - 1, 3, true);
  append_number(&chunks, size.height - 1, 3, true);
  append(&chunks, webp.subspan(12));
  append(&chunks, bytes_of(name));
  append_number(&chunks, data.size(), 4, true);
  append(&chunks, data);
  if (data.size() % 2 == 1) chunks.push_back(0);
  ByteVector out = bytes_of("RIFF");
  append_number(&out, chunks.size() + 4, 4, true);
  append(&out, bytes_of("WEBP"));
  append(&out, chunks);
  return out;
}

// Returns what an image with this orientation tag shows: CIPA DC-008, 4.6.5, says for each tag
// where the first row and the first column of the stored pixels are seen.
inline Pixels shown(const Pixels& stored, uint64_t tag) {
  const uint32_t right = stored.width - 1;
  const uint32_t bottom = stored.height - 1;
  Pixels out;
  tag >= 5 ? out.reset(stored.height, stored.width) : out.reset(stored.width, stored.height);
  for (uint32_t y = 0; y < out.height; ++y) {
    for (uint32_t x = 0; x < out.width; ++x) {
      std::array<uint32_t, 2> from = {x, y};
      if (tag == 2) from = {right - x, y};
      if (tag == 3) from = {right - x, bottom - y};
      if (tag == 4) from = {x, bottom - y};
      if (tag == 5) from = {y, x};
      if (tag == 6) from = {y, bottom - x};
      if (tag == 7) from = {right - y, bottom - x};
      if (tag == 8) from = {right - y, x};
      std::copy_n(stored.rgb.data() + (size_t{from[1]} * stored.width + from[0]) * 3, 3,
                  out.rgb.data() + (size_t{y} * out.width + x) * 3);
    }
  }
  return out;
}

}  // namespace forebay::image
