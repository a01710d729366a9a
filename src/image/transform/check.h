// Checks that the options of crops and of erasing make sense.
#pragma once

#include "image/transform/cut.h"
#include "image/transform/tensor.h"

namespace forebay::image {

// These return kInvalid with the name of the first bad option.

// An option must be from `min` to `max`.
template <class T>
Status check_range(const char* name, T value, T min, T max) {
  if (value >= min && value <= max) return {};
  return base::fail(base::Code::kInvalid, "{} is {}, but must be from {} to {}", name, value, min,
                    max);
}
Status check_size(const char* what, Size size);
Status check_padding(const Padding& padding);
Status check_crop(const Crop& crop);
Status check_erasing(const RandomErasing& erasing, DType dtype);

}  // namespace forebay::image
