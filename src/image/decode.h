// From an encoded image of any format that Forebay reads (JPEG, PNG, WebP; by content, not by
// name) to pixels.
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

// By the first bytes.
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
  jpeg::Header jpeg;  // of a JPEG
};
// From the header alone. Errors as ImageDecoder::decode.
Result<Encoded> read_header(Bytes file);

struct DecodeRequest {
  Encoded source;
  Rect region;
  uint32_t scale = 1;  // as jpeg::DecodeRequest's; 1 for other formats
};

// Keeps its buffers between images. One thread at a time.
class ImageDecoder {
 public:
  using Take = jpeg::Decoder::Take;

  explicit ImageDecoder(Damaged damaged = Damaged::kRefuse) : jpeg_({.damaged = damaged}) {}

  // Same contract as jpeg::Decoder::decode. Transparency is dropped, 16 bits become 8 and palettes
  // and grey RGB, as Pillow's convert("RGB") does; orientation tags are not applied.
  void decode(std::span<const DecodeRequest> requests, const Take& take);
  // One image; all of it when `region` is unset.
  Status decode(Bytes file, const std::optional<Rect>& region, Pixels* out);

 private:
  Status decode_other(const DecodeRequest& request);

  jpeg::Decoder jpeg_;
  std::vector<jpeg::DecodeRequest> jpegs_;
  std::vector<size_t> numbers_;  // of jpegs_, among all requests
  base::PixelRows other_;        // of an image of another format
};

}  // namespace forebay::image
