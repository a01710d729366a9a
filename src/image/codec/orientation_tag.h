// Reads the orientation of an image like Pillow's ImageOps.exif_transpose: from the tag 0x0112 of
// its EXIF (CIPA DC-008, 4.6.5), or, if EXIF has no such tag, from its XMP.
#pragma once

#include "image/codec/decode.h"

namespace forebay::image {

// `file` must begin like a file of this format. Returns {}, for an image that is shown as stored,
// if the metadata have no orientation or are malformed.
Orientation read_orientation(Format format, Bytes file);

}  // namespace forebay::image
