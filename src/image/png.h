// PNG files (ISO/IEC 15948) to RGB, through libpng.
#pragma once

#include "image/decode.h"

namespace forebay::image {

bool is_png(Bytes file);
// Errors: kCorrupt, kTooBig.
Result<Size> read_png_size(Bytes file);
// The whole image. Errors: as read_png_size; any warning of libpng's about what makes the pixels is
// kCorrupt. Chunks that only describe (gamma, profiles, text) are passed over unread, as Pillow's
// pixels do not depend on them.
Status decode_png(Bytes file, Pixels* out);

}  // namespace forebay::image
