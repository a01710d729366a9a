// Whether what is asked of samples makes sense.
#pragma once

#include "image/prepare.h"

namespace forebay::image {

// kInvalid where an option is not from `min` to `max`.
template <class T>
Status check_range(const char* name, T value, T min, T max) {
  if (value >= min && value <= max) return {};
  return base::fail(base::Code::kInvalid, "{} is {}, but must be from {} to {}", name, value, min,
                    max);
}

// kInvalid, naming the option.
Status check_options(const Transform& transform, const TensorOptions& tensor);

}  // namespace forebay::image
