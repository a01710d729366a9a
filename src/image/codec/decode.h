// Decodes images of any format that Forebay reads (JPEG, PNG, WebP) to pixels. The content decides
// the format, not the name.
#pragma once

#include "image/codec/orientation.h"
#include "jpeg/decode.h"

namespace forebay::image {

using base::Bytes;
using base::Pixels;
using base::Rect;
using base::Result;
using base::Status;
using jpeg::Damaged;

enum class Format : uint8_t { kUnknown, kJpeg, kPng, kWebp };

// Recognises the format by the first bytes.
Format sniff(Bytes file);
std::string_view format_name(Format format);

struct Size {
  uint32_t width = 0;
  uint32_t height = 0;
  bool operator==(const Size&) const = default;
};

// Returns the shown size for a stored size, or the stored size for a shown size.
inline Size turned(Size size, const Orientation& orientation) {
  return orientation.transposed ? Size{size.height, size.width} : size;
}

// An image whose header was read.
struct Encoded {
  Bytes file;
  Format format = Format::kUnknown;
  Size size;          // as it is shown
  jpeg::Header jpeg;  // for a JPEG
  Orientation orientation = {};
};
// Reads only the header. With `oriented`, the image is shown as its orientation tag says, otherwise
// as it is stored. Errors: same as ImageDecoder::decode().
Result<Encoded> read_header(Bytes file, bool oriented = false);

struct DecodeRequest {
  Encoded source;
  Rect region;         // of the image as it is shown
  uint32_t scale = 1;  // same as jpeg::RegionRequest::scale; 1 for other formats
};

// Keeps its buffers between images. Used by one thread at a time.
class ImageDecoder {
 public:
  using Take = jpeg::Decoder::Take;

  explicit ImageDecoder(Damaged damaged = Damaged::kRefuse) : jpeg_({.damaged = damaged}) {}

  // Same contract as jpeg::Decoder::decode(). Transparency is dropped; 16 bits become 8; palettes
  // and grey become RGB, like in Pillow's convert("RGB").
  void decode(std::span<const DecodeRequest> requests, const Take& take);
  // Decodes one image as it is stored; the whole image when `region` is unset.
  Status decode(Bytes file, const std::optional<Rect>& region, Pixels* out);

 private:
  Status decode_other(const DecodeRequest& request);

  jpeg::Decoder jpeg_;
  std::vector<jpeg::RegionRequest> jpegs_;
  std::vector<size_t> numbers_;  // the request of each entry of jpegs_
  base::PixelRows other_;        // the pixels of an image of another format
  OrientedRows shown_;
};

}  // namespace forebay::image
