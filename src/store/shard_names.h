// What only the names of all samples of a WebDataset source together tell: whether keys begin anew
// in each shard, and whether folders inside the shards are classes.
#pragma once

#include "store/source.h"

namespace forebay::store {

// Where every sample lies in a folder of its shard, and not all in the same one, the folders become
// classes, as for torchvision's ImageFolder: after the folders that all samples have in common, the
// first one is the sample's class; classes are numbered in the order of their names (bytes). Sets
// labels and Schema::classes and gives true, or leaves everything and gives false: where a sample
// lies in no folder below the common ones, or the classes would be above the limits.
bool label_by_folders(Listing* listing);

// Puts the shard's name before every key and source path: "shard-000/000000". The name is the
// shard's path below the source's folder without ".tar"; one that begins with "__" or "%" is
// escaped as a folder source's keys are. Errors: kTooBig (a key or path above the limits),
// kUnsupported (shards that have no names of their own below the folder).
Status qualify_keys(const SourcePlaces& places, Listing* listing);

}  // namespace forebay::store
