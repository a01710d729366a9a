// Steps that mix the channels of each pixel. They equal torchvision v2's on uint8 tensors.
#pragma once

#include "image/augment/picture.h"

namespace forebay::image {

// The mean of the pixels' grey: 0.2989 red + 0.587 green + 0.114 blue, rounded down.
float grey_mean(const Picture& picture);
// Sets all channels to the pixels' grey.
void make_grey(Picture* picture);
// Moves the colours away from the pixels' grey. `factor` is at least 0: 0 makes the picture grey,
// and 1 leaves it as it is.
void saturate(double factor, Picture* picture);
// Shifts the hue of HSV by a part of a full turn, from -0.5 to 0.5.
void shift_hue(double shift, Picture* picture);

}  // namespace forebay::image
