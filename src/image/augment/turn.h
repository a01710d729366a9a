// Quarter turns of a picture.
#pragma once

#include "image/augment/picture.h"

namespace forebay::image {

// Makes columns of the rows.
void transpose(const Picture& from, Picture* to);
// Turns the picture counter-clockwise by this many quarter turns.
void turn(const Picture& from, uint32_t quarters, Picture* to);

}  // namespace forebay::image
