// Moves crops to the earliest place where the resulting pixels stay the same, so that the parts
// that they cut off need neither be changed nor decoded.
#pragma once

#include "image/augment/action.h"

namespace forebay::image {

// Reorders the actions on a picture of this size. Returns the part of the picture that is needed;
// afterwards, the actions apply to this part only.
Rect crop_first(Size picture, std::vector<Action>* actions);

}  // namespace forebay::image
