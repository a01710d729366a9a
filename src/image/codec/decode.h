// Decodes images of any format that Forebay reads (JPEG, PNG, WebP) to pixels. The content decides
// the format, not the name.
#pragma once

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

// An image whose header was read.
struct Encoded {
  Bytes file;
  Format format = Format::kUnknown;
  Size size;
  jpeg::Header jpeg;  // for a JPEG
};
// Reads only the header. Errors: same as ImageDecoder::decode().
Result<Encoded> read_header(Bytes file);

struct DecodeRequest {
  Encoded source;
  Rect region;
  uint32_t scale = 1;  // same as jpeg::RegionRequest::scale; 1 for other formats
};

// Keeps its buffers between images. Used by one thread at a time.
class ImageDecoder {
 public:
  using Take = jpeg::Decoder::Take;

  explicit ImageDecoder(Damaged damaged = Damaged::kRefuse) : jpeg_({.damaged = damaged}) {}

  // Same contract as jpeg::Decoder::decode(). Transparency is dropped; 16 bits become 8; palettes
  // and grey become RGB, like in Pillow's convert("RGB"). Orientation tags are not applied.
  void decode(std::span<const DecodeRequest> requests, const Take& take);
  // Decodes one image; the whole image when `region` is unset.
  Status decode(Bytes file, const std::optional<Rect>& region, Pixels* out);

 private:
  Status decode_other(const DecodeRequest& request);

  jpeg::Decoder jpeg_;
  std::vector<jpeg::RegionRequest> jpegs_;
  std::vector<size_t> numbers_;  // the request of each entry of jpegs_
  base::PixelRows other_;        // the pixels of an image of another format
};

}  // namespace forebay::image
