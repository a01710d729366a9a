// Quarter turns of a picture.
#pragma once

#include "image/augment/picture.h"

namespace forebay::image {

// Makes rows of the columns.
void transpose(const Picture& from, Picture* to);
// Turns the picture by so many quarters counter-clockwise.
void turn(const Picture& from, uint32_t quarters, Picture* to);

}  // namespace forebay::image
