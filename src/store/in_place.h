// Images used where they lie, without packing.
#pragma once

#include "store/dataset.h"

namespace forebay::store {

// A packed dataset, or else a folder of folders of images in place: each file is a chunk of one
// sample, in the order of list_source(), without checksums. A file that changes afterwards is read
// as it is then; its size may not change. Errors: as Dataset::open and list_source; kUnsupported
// for tar shards.
Result<std::shared_ptr<const Dataset>> open_dataset(const io::FileSystem& fs,
                                                    const std::string& path);

}  // namespace forebay::store
