// What training must know about a dataset before it starts: its classes and the size of its images.
#pragma once

#include "store/dataset.h"

namespace forebay::train {

using base::Result;
using base::Status;

// Returns the number of classes: one more than the highest label, or the number of class names if
// that is larger; 0 when no sample has a class.
int64_t class_count(const store::Dataset& dataset);

// Checks that each class of `validation` has the same number in `training`, which has `classes`
// classes; otherwise the accuracy would mean nothing. Errors: kInvalid.
Status check_same_classes(const store::Dataset& training, const store::Dataset& validation,
                          int64_t classes);

// Returns the shorter side, in pixels, of the first image. Errors: kInvalid for a dataset without
// samples; those of reading the file and its header.
Result<uint32_t> first_image_side(const store::Dataset& dataset);

}  // namespace forebay::train
