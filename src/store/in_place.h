// Images used where they lie, without packing.
#pragma once

#include "store/dataset.h"
#include "store/in_place_index.h"

namespace forebay::store {

// A packed dataset, or else images in place, in the order of list_source(): a folder of folders of
// images, of which each file is a chunk of one sample; or tar shards, each of which is a chunk, a
// large one several. Classes are those that pack would store.
//
// An index that `forebay index` made is used while it holds (indexing.h); else everything is
// listed, and notes() say so where an index is damaged or out of date. Checksums are known where
// the index has them. A file of a folder that changes afterwards is read as it is then where it has
// no checksum, but its size may not change; a shard may not change at all: the samples are bad then
// (Dataset::check_unchanged). Errors: as Dataset::open and list_source.
Result<std::shared_ptr<const Dataset>> open_dataset(const io::FileSystem& fs,
                                                    const std::string& path);

// The images that `index` names, of the source `path` at `places`; is_stored: the index is that of
// `forebay index`. The index must have at least one sample.
std::shared_ptr<const Dataset> make_in_place(InPlaceIndex index, bool is_stored, std::string path,
                                             SourcePlaces places);

}  // namespace forebay::store
