// Lets crops come as early as the pixels stay the same, so that what they leave out need neither be
// changed nor decoded.
#pragma once

#include "image/augment/action.h"

namespace forebay::image {

// Reorders actions on a picture of this size. Returns the part of the picture that is needed; the
// actions are then those for this part.
Rect crop_first(Size picture, std::vector<Action>* actions);

}  // namespace forebay::image
