// Adds to a listing what lies beside its images: annotations and masks. They become files of the
// samples, so that they are planned, read and stored like the files of a shard's samples.
#pragma once

#include "store/source/source.h"

namespace forebay::store {

// Adds each sample's part of a file in COCO's format as the field kAnnotationsField. Samples that
// the file does not know get none. The listing's remarks say what does not fit. Errors: kExists
// where samples have the field already; kInvalid where no image of the file is a sample; kTooBig;
// those of read_annotations().
Status add_annotations(const io::Origin& origin, const std::string& path, Listing* listing);

// Adds the mask of each sample as the field kMaskFields[0]: the image with the sample's key in
// `source`, which is anything that may be packed. Errors: kExists where samples have a mask
// already; kInvalid where a sample has no mask there; those of listing.
Status add_masks(const io::Origin& origin, const std::string& source, Listing* listing);

}  // namespace forebay::store
