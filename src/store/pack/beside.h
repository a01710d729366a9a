// Adds annotations and masks to the listing of a source. They become files of the samples, so they
// are planned, read and stored like the files of a shard's samples.
#pragma once

#include "store/source/image_names.h"
#include "store/source/source.h"

namespace forebay::store {

// Adds each sample's annotations from a file in COCO's format as the field kAnnotationsField.
// Samples that the file does not list get none. The listing's remarks count images and annotations
// that do not match. Errors: kExists (samples already have this field), kInvalid (no image of the
// file is a sample), kTooBig, those of read_annotations().
Status add_annotations(const io::Origin& origin, const std::string& path, Listing* listing);

// Adds a mask to each sample as the field kMaskFields[0]: the image with the sample's name in
// `source`, which may be any kind of source; `names` says which names are the same. Errors: kExists
// (samples already have masks), kInvalid (a sample has no mask there, or may have several), those
// of listing.
Status add_masks(const io::Origin& origin, const std::string& source, const NamePatterns& names,
                 Listing* listing);

}  // namespace forebay::store
