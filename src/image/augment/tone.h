// Steps that change each byte of a channel by itself, as tables. They equal torchvision v2's on
// uint8 tensors.
#pragma once

#include "image/augment/picture.h"

namespace forebay::image {

// What each byte value becomes, for each channel.
using ToneTable = std::array<std::array<uint8_t, 256>, 3>;
// How many pixels have each byte value, for each channel.
using Histogram = std::array<std::array<uint32_t, 256>, 3>;

Histogram histogram_of(const Picture& picture);
// Returns the histogram after each byte was replaced by its entry in the table.
Histogram changed(const Histogram& histogram, const ToneTable& table);

// The table of `first` followed by `second`.
ToneTable followed_by(const ToneTable& first, const ToneTable& second);
void change_tone(const ToneTable& table, Picture* picture);

// Used by change_tone() if the processor has the instructions. `count` is a multiple of 64.
void look_up_avx512(const uint8_t* table, size_t count, uint8_t* bytes);

// `factor` is at least 0; 1 leaves the picture as it is.
ToneTable brightness(double factor);
// `grey_mean` is the mean of grey_mean() in colour.h.
ToneTable contrast(double factor, float grey_mean);
// Keeps the highest `bits` bits, from 0 to 8.
ToneTable posterize(uint32_t bits);
// Inverts bytes from `threshold` on.
ToneTable solarize(double threshold);
ToneTable solarize_add(uint32_t added, uint32_t threshold);
ToneTable inverted();
// Stretches each channel's levels to the range from 0 to 255.
ToneTable autocontrast(const Histogram& histogram);
// Makes each channel's values about equally frequent.
ToneTable equalize(const Histogram& histogram);

}  // namespace forebay::image
