// Checks that the options for samples make sense.
#pragma once

#include "image/prepare.h"
#include "image/transform/check.h"

namespace forebay::image {

// Returns kInvalid with the name of the first bad option.
Status check_options(const Transform& transform, const TensorOptions& tensor);

}  // namespace forebay::image
