// Decodes PNG files (ISO/IEC 15948) to RGB, through libpng.
#pragma once

#include "image/codec/content.h"
#include "image/codec/decode.h"

namespace forebay::image {

bool is_png(Bytes file);
// Errors: kCorrupt, kTooBig.
Result<Size> read_png_size(Bytes file);
// Decodes the whole image. Errors: same as read_png_size(); kCorrupt when something that determines
// pixels is damaged or incomplete: the header, the palette, the pixels' data and their checksums.
// Chunks that only describe the image (gamma, profiles, text, transparency) and everything after
// the pixels' data are ignored, because no pixel depends on them.
Status decode_png(Bytes file, Pixels* out);
// Reads the chunks before the pixels' data. Errors: kCorrupt, kNoMemory. Damaged chunks that only
// describe the image are left out.
Result<Content> read_png_content(Bytes file);

// Decodes a map of labels from a PNG that is grey or has a palette. The labels are the numbers that
// the file stores (0 to 255, or to 65535 with 16 bits). Red becomes the label's low byte, and green
// its high byte. Errors: same as decode_png(); kUnsupported for colours.
Status decode_png_labels(Bytes file, Pixels* out);
// Whether a file is a PNG that stores colours, and neither grey nor indexes into a palette.
bool has_png_colours(Bytes file);
// Decodes a mask whose colours stand for classes, from any PNG but one with 16 bits a channel.
// Transparency is dropped. Errors: same as decode_png(); kUnsupported.
Status decode_png_colours(Bytes file, Pixels* out);
// Returns the number of bits of a label: 16, or at most 8. `file` must begin like a PNG
// (read_png_size()).
uint32_t png_bits(Bytes file);

}  // namespace forebay::image
