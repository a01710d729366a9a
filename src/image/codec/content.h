// What a PNG or WebP holds beside the colours of its pixels: whether a JPEG could hold all that it
// shows, and what it says about itself.
#pragma once

#include "base/bytes.h"

namespace forebay::image {

// Each part is empty where the file lacks it.
struct Metadata {
  base::ByteVector exif;  // without the head "Exif" that a JPEG has before it
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
