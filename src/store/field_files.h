// The files of one field as a dataset of their own, for example masks.
#pragma once

#include "store/dataset.h"

namespace forebay::store {

// Returns a dataset whose sample i is the file that sample i of `base`, a packed dataset, has in
// the field. It has the chunks of `base`, with the same ids. load_locations() reads the locations
// from the chunk indexes. A sample without a file in this field gets a location of length 0.
std::shared_ptr<const Dataset> field_files(std::shared_ptr<const Dataset> base, std::string field);

}  // namespace forebay::store
