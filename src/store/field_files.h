// A field's files as a dataset of their own, such as the masks beside the images.
#pragma once

#include "store/dataset.h"

namespace forebay::store {

// Sample i is the file that sample i of `base`, a packed dataset, has in the field. Chunks are
// those of `base`, with the same ids. Where the files lie is read with the chunks' indexes, so that
// a location is known after load_locations(); its length is 0 where the sample has no such file.
std::shared_ptr<const Dataset> field_files(std::shared_ptr<const Dataset> base, std::string field);

}  // namespace forebay::store
