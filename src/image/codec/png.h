// Decodes PNG files (ISO/IEC 15948) to RGB, through libpng.
#pragma once

#include "image/codec/decode.h"

namespace forebay::image {

bool is_png(Bytes file);
// Errors: kCorrupt, kTooBig.
Result<Size> read_png_size(Bytes file);
// Decodes the whole image. Errors: same as read_png_size(); kCorrupt when something that determines
// pixels is damaged or incomplete: the header, the palette, the pixels' data and their checksums.
// Chunks that only describe (gamma, profiles, text, transparency) and everything after the pixels'
// data are ignored, because no pixel depends on them.
Status decode_png(Bytes file, Pixels* out);

}  // namespace forebay::image
