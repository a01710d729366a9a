// What a PNG or WebP holds beside the colours of its pixels: its metadata, and whether a JPEG could
// hold everything that it shows.
#pragma once

#include "base/bytes.h"

namespace forebay::image {

// Each part is empty if the file does not have it.
struct Metadata {
  base::ByteVector exif;  // without the prefix "Exif" that it has in a JPEG
  base::ByteVector icc;   // the profile
  base::ByteVector xmp;
};

struct Content {
  bool is_grey = false;
  // Whether everything that the file shows is one picture of 8 bits a channel without transparency.
  bool is_opaque_8_bit = false;
  Metadata metadata;
};

}  // namespace forebay::image
