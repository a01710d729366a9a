// Two questions that only the names of all samples of a WebDataset source answer: whether keys
// start again in each shard, and whether folders inside the shards are classes.
#pragma once

#include "store/source/source.h"

namespace forebay::store {

// If every sample lies in a folder of its shard, and not all in the same one, the folders become
// classes like those of torchvision's ImageFolder: the first folder after those that all samples
// have in common is the sample's class. Classes are numbered in the order of the bytes of their
// names. Sets labels and Schema::classes and gives true. Leaves everything and gives false where a
// sample lies in no folder below the common ones, or the classes would be above the limits.
bool label_by_folders(Listing* listing);

// Puts the shard's name before every key and source path: "shard-000/000000". The name is the
// shard's path below the source's folder without ".tar"; a name that begins with "__" or "%" is
// escaped like a folder source's keys. Errors: kTooBig (a key or path above the limits),
// kUnsupported (shards that have no names of their own below the folder).
Status qualify_keys(const ResolvedSource& places, Listing* listing);

}  // namespace forebay::store
