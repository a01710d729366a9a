// Steps that mix each pixel with its neighbours in the same channel.
#pragma once

#include "image/augment/picture.h"

namespace forebay::image {

// torchvision v2's adjust_sharpness on uint8 tensors, bit for bit. `factor` is at least 0: 0 blurs
// the picture, 1 leaves it as it is, and more sharpens it. `to` becomes the result.
void sharpen(const Picture& from, double factor, Picture* to);

// Returns half of a Gaussian as whole numbers, from its middle on. The sum of the whole Gaussian is
// 2^kBlurBits, and `length` is its number of weights, which is odd. Zeros at the end are left out.
inline constexpr int kBlurBits = 14;
std::vector<int16_t> blur_weights(uint32_t length, double sigma);

// torchvision v2's gaussian_blur on uint8 tensors, within one level, by blur_weights(). The picture
// is mirrored at its sides without repeating the last pixel; each side has at least as many pixels
// as it has weights. `to` becomes the result.
void blur(const Picture& from, std::span<const int16_t> across, std::span<const int16_t> down,
          Picture* to);

}  // namespace forebay::image
