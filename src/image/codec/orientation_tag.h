// Reads how an image is to be shown, like Pillow's ImageOps.exif_transpose: from the tag 0x0112 of
// its EXIF (CIPA DC-008, 4.6.5), or where that has no such tag from XMP.
#pragma once

#include "image/codec/decode.h"

namespace forebay::image {

// `file` must begin like a file of this format. Gives {} where nothing says how the image is to be
// shown, or what says it is malformed.
Orientation read_orientation(Format format, Bytes file);

}  // namespace forebay::image
