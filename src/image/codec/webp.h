// Decodes WebP files to RGB, through libwebp. Of an animation, only the first frame is read.
#pragma once

#include "image/codec/content.h"
#include "image/codec/decode.h"

namespace forebay::image {

bool is_webp(Bytes file);
// Errors: kCorrupt, kTooBig.
Result<Size> read_webp_size(Bytes file);
// Decodes the whole image. Of an animation, decodes the first frame; the canvas is black where the
// frame does not cover it. Errors: same as read_webp_size().
Status decode_webp(Bytes file, Pixels* out);
// Errors: kCorrupt.
Result<Content> read_webp_content(Bytes file);

}  // namespace forebay::image
