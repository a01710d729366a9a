// Opens what is there: a packed dataset, or images that are used where they lie.
#pragma once

#include "store/dataset.h"
#include "store/format/in_place_index.h"
#include "store/source/source.h"

namespace forebay::store {

// Opens a packed dataset (open_packed), or else images in place, in the order of list_source(): a
// folder of folders of images, where each file is a chunk of one sample; or tar shards, where each
// shard is a chunk, and a large shard is several chunks. Classes are those that pack would store.
//
// An index that `forebay index` made is used while it holds (source/index_file.h). Otherwise
// everything is listed, and notes() say so where an index is damaged or out of date. Checksums are
// known where the index has them. A file of a folder that changes later is read as it is then,
// unless its checksum is known or its size changed. A shard may not change at all. Samples whose
// file changed are bad (Dataset::open_chunk). `origin` outlives the dataset. Errors: those of
// open_packed() and list_source().
Result<std::shared_ptr<const Dataset>> open_dataset(const io::Origin& origin,
                                                    const std::string& path,
                                                    const OpenOptions& options = {});

// The images that `index` names, of the source `path` at `places`. `is_stored` says that the index
// was made by `forebay index`. The index must have at least one sample.
std::shared_ptr<const Dataset> make_in_place(const io::Origin& origin, InPlaceIndex index,
                                             bool is_stored, std::string path,
                                             ResolvedSource places);

}  // namespace forebay::store
