// What training has to know about a dataset before it starts: its classes and its images' size.
#pragma once

#include "store/dataset.h"

namespace forebay::train {

using base::Result;
using base::Status;

// Gives the number of classes: one more than the highest label, or the number of class names if
// that is larger; 0 when no sample has a class.
int64_t class_count(const store::Dataset& dataset);

// Fails with kInvalid unless each class that `validation` has is one of the `classes` classes of
// `training` under the same number; otherwise the accuracy would say nothing.
Status check_same_classes(const store::Dataset& training, const store::Dataset& validation,
                          int64_t classes);

// Gives the shorter side, in pixels, of the first image. Errors: kInvalid for a dataset without
// samples; those of reading the file and its header.
Result<uint32_t> first_image_side(const store::Dataset& dataset);

}  // namespace forebay::train
