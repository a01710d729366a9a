// WebP files to RGB, through libwebp.
#pragma once

#include "image/decode.h"

namespace forebay::image {

bool is_webp(Bytes file);
// Errors: kCorrupt, kTooBig, kUnsupported (animations).
Result<Size> read_webp_size(Bytes file);
// The whole image. Errors: as read_webp_size.
Status decode_webp(Bytes file, Pixels* out);

}  // namespace forebay::image
