// PNG files (ISO/IEC 15948) to RGB, through libpng.
#pragma once

#include "image/decode.h"

namespace forebay::image {

bool is_png(Bytes file);
// Errors: kCorrupt, kTooBig.
Result<Size> read_png_size(Bytes file);
// The whole image. Errors: as read_png_size; kCorrupt where what makes the pixels is damaged or
// incomplete: the header, the palette, the pixels' data and their checksums. Chunks that only
// describe (gamma, profiles, text, transparency) and all that follows the pixels' data are passed
// over, as no pixel depends on them.
Status decode_png(Bytes file, Pixels* out);

}  // namespace forebay::image
