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

// What becomes of the parts' classes in a concatenation. kMerged: classes are merged by name, in
// the order of their first occurrence, and labels are renumbered. kLeftOut: no sample has a class,
// because the caller has labels of its own.
enum class Classes : uint8_t { kMerged, kLeftOut };

// Returns a view of the samples of all parts, one part after the other; each part may have its own
// origin. Errors: kInvalid if classes are merged, but only some of the parts have class names;
// kTooBig.
Result<std::shared_ptr<const Dataset>> concat(
    const std::vector<std::shared_ptr<const Dataset>>& parts, Classes classes = Classes::kMerged);

}  // namespace forebay::store
