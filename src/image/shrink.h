// Makes images smaller and encodes them again as JPEGs, which `forebay pack --resize` does. This
// loses something of every image that it touches.
#pragma once

#include "image/transform/resize.h"

namespace forebay::image {

struct Shrink {
  uint64_t short_side = 256;  // pixels
  uint64_t quality = 90;      // 1 to 100, on libjpeg's scale
  bool operator==(const Shrink&) const = default;
};

// Keeps its buffers between images. Used by one thread at a time.
class Shrinker {
 public:
  explicit Shrinker(const Shrink& options) : options_(options) {}

  // Resizes an image whose shorter side is longer than the one of the options, antialiased like
  // torchvision's Resize(short_side), and encodes it as a JPEG. Its metadata go along
  // (codec/jpeg_metadata.h). Grey stays grey; 4:4:4 and 4:2:2 of a JPEG are kept, and all other
  // colours become 4:2:0. Gives nothing for an image that is small enough. Errors: kUnsupported
  // for a PNG or WebP that is transparent, animated or not of 8 bits a channel, with one fixed
  // message for each format; those of ImageDecoder::decode() and of memory. The result depends
  // on the file and the options alone.
  Result<std::optional<base::ByteVector>> shrink(Bytes file);

 private:
  Status resize(const Encoded& source, const Size& size);

  const Shrink options_;
  ImageDecoder decoder_;
  Resizer resizer_;
  Pixels resized_;
};

}  // namespace forebay::image
