// Makes images smaller and encodes them again as JPEGs, for `forebay pack --resize`. This is lossy
// for every image that it changes.
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

  // If the shorter side of an image exceeds `short_side`, resizes the image, antialiased like
  // torchvision's Resize(short_side), and encodes it as a JPEG with the image's metadata
  // (codec/jpeg_metadata.h). Grey stays grey; a JPEG keeps 4:4:4 or 4:2:2, and all other colours
  // become 4:2:0. Returns nothing for an image that is small enough. Errors: kUnsupported for a PNG
  // or WebP that is transparent, animated or not of 8 bits a channel, with one fixed message for
  // each format; those of ImageDecoder::decode(), resized_size() and jpeg::turbo_encode(). The
  // result depends only on the file and the options.
  Result<std::optional<base::ByteVector>> shrink(Bytes file);

 private:
  Status resize(const Encoded& source, const Size& size);

  const Shrink options_;
  ImageDecoder decoder_;
  Resizer resizer_;
  Pixels resized_;
};

}  // namespace forebay::image
