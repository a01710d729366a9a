// What an image says about itself, in the segments of a JPEG that its pixels are encoded to.
#pragma once

#include "image/codec/content.h"
#include "image/codec/decode.h"
#include "jpeg/turbo_encode.h"

namespace forebay::image {

// Gives the APPn and COM segments of a JPEG as they are, for an image that is encoded again as
// grey or YCbCr. Those that would not be true of it are left out: Adobe's, which says how colours
// are coded; the MPF segment, which says where further pictures lie in the file; and the profile of
// inks of a CMYK image. If the segments after the pixels are malformed, the ones before them count.
std::vector<jpeg::MetadataSegment> segments_of_jpeg(const Encoded& source);

// Gives the segments that hold the same as a PNG's or WebP's metadata, after JFIF's. EXIF and XMP
// that do not fit into one segment each (64 KB) are left out.
std::vector<jpeg::MetadataSegment> segments_for(const Metadata& metadata);

}  // namespace forebay::image
