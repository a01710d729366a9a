// The metadata of an image, as segments of the JPEG that its pixels are encoded to.
#pragma once

#include "image/codec/content.h"
#include "image/codec/decode.h"
#include "jpeg/turbo_encode.h"

namespace forebay::image {

// Returns the APPn and COM segments of a JPEG, unchanged, for the image encoded again as grey or
// YCbCr. Leaves out segments that would be wrong for the new file: Adobe's, which says how colours
// are coded; MPF, which says where further pictures lie in the file; and the ICC profile of a CMYK
// image. If a segment is malformed, returns only the segments before it.
std::vector<jpeg::MetadataSegment> segments_of_jpeg(const Encoded& source);

// Returns a JFIF segment and then segments with the metadata of a PNG or WebP. EXIF and XMP are
// left out if they do not fit into one segment (64 KB) each.
std::vector<jpeg::MetadataSegment> segments_for(const Metadata& metadata);

}  // namespace forebay::image
