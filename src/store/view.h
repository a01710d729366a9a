// Datasets made of other datasets' samples, without copying anything.
#pragma once

#include "store/dataset.h"

namespace forebay::store {

// Returns a view of the samples of `base` with these numbers, in this order; a number may come
// several times. Consecutive samples that lie close together in a chunk form a chunk of the view,
// so that they are read in one piece. Errors: kInvalid for a number that `base` does not have;
// kTooBig for too many chunks.
Result<std::shared_ptr<const Dataset>> select(std::shared_ptr<const Dataset> base,
                                              std::vector<uint64_t> samples);

// Returns a view of the samples of all parts, one part after the other; each part may have its own
// origin. Classes are merged by name, in the order of their first occurrence, and labels are
// renumbered. Errors: kInvalid if only some of the parts have class names; kTooBig.
Result<std::shared_ptr<const Dataset>> concat(
    const std::vector<std::shared_ptr<const Dataset>>& parts);

}  // namespace forebay::store
