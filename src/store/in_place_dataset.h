// Opens a dataset: a packed one, or images that are used in place.
#pragma once

#include "store/dataset.h"
#include "store/format/in_place_index.h"
#include "store/source/source.h"

namespace forebay::store {

// Opens a packed dataset (open_packed), or else images in place, in the order of list_source(): a
// folder of folders of images, in which each file is a chunk of one sample; or tar shards, in which
// each shard is a chunk, or several chunks if it is large. Classes are those that pack would store.
//
// Uses an index that `forebay index` made, if it is up to date (source/index_file.h). Otherwise it
// lists everything, and notes() say so if there is an index that is damaged or out of date.
// Checksums are known only from an index. A file of a folder that changes later is read with its
// new content, unless its checksum is known or its size changed. A shard may not change at all.
// Samples whose file changed are bad (Dataset::open_chunk). `origin` outlives the dataset. Errors:
// those of open_packed() and list_source().
Result<std::shared_ptr<const Dataset>> open_dataset(const io::Origin& origin,
                                                    const std::string& path,
                                                    const OpenOptions& options = {});

// Opens these image files in place, in this order; a file may come several times. Samples have no
// classes. Its path is the folder that all files have in common. `origin` outlives the dataset.
// Errors: those of list_files().
Result<std::shared_ptr<const Dataset>> open_files(const io::Origin& origin,
                                                  const std::vector<std::string>& paths);

// Makes a dataset of the images that `index` lists. `path`: the source's name; `places`: its files.
// `is_stored`: whether the index was made by `forebay index`. The index must have a sample.
std::shared_ptr<const Dataset> make_in_place(const io::Origin& origin, InPlaceIndex index,
                                             bool is_stored, std::string path,
                                             ResolvedSource places);

}  // namespace forebay::store
