// Checks that the options for samples make sense.
#pragma once

#include "image/prepare.h"

namespace forebay::image {

// Returns kInvalid when an option is not from `min` to `max`.
template <class T>
Status check_range(const char* name, T value, T min, T max) {
  if (value >= min && value <= max) return {};
  return base::fail(base::Code::kInvalid, "{} is {}, but must be from {} to {}", name, value, min,
                    max);
}

// Returns kInvalid with the name of the first bad option.
Status check_options(const Transform& transform, const TensorOptions& tensor);

}  // namespace forebay::image
