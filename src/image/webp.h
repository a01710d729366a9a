// WebP files to RGB, through libwebp. Of an animation its first frame counts.
#pragma once

#include "image/decode.h"

namespace forebay::image {

bool is_webp(Bytes file);
// Errors: kCorrupt, kTooBig.
Result<Size> read_webp_size(Bytes file);
// The whole image; of an animation its first frame, black where the frame leaves the canvas empty.
// Errors: as read_webp_size.
Status decode_webp(Bytes file, Pixels* out);

}  // namespace forebay::image
