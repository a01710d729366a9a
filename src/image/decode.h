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

enum class Format : uint8_t { kUnknown, kJpeg, kPng, kWebp };

// By the first bytes.
Format sniff(Bytes file);
std::string_view format_name(Format format);

struct Size {
  uint32_t width = 0;
  uint32_t height = 0;
  bool operator==(const Size&) const = default;
};
// From the header alone. Errors as ImageDecoder::decode.
Result<Size> read_size(Bytes file);

// Keeps its buffers between images. One thread at a time.
class ImageDecoder {
 public:
  // As jpeg::Decoder::decode. Transparency is dropped, 16 bits become 8 and palettes and grey RGB,
  // as Pillow's convert("RGB") does; orientation tags are not applied.
  Status decode(Bytes file, const std::optional<Rect>& region, Pixels* out);

 private:
  jpeg::Decoder jpeg_;
};

}  // namespace forebay::image
