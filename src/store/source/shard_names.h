// Decides what depends on the names of all samples of a WebDataset source: whether folders inside
// the shards, or the shards themselves, are classes, and how keys become unique if they repeat from
// shard to shard.
#pragma once

#include "store/source/source.h"

namespace forebay::store {

// If every sample lies in a folder of its shard, and not all in the same one, the folders become
// classes like those of torchvision's ImageFolder: the first folder after those that all samples
// have in common is the sample's class. Classes are numbered in the order of the bytes of their
// names. Sets labels and Schema::classes and returns true. Changes nothing and returns false if a
// sample lies in no folder below the common ones, or the classes would be above the limits.
bool label_by_folders(Listing* listing);

// If there are several shards, and the name of every image begins with the name of its shard and
// "_", the shards' names become classes, in the order of their bytes. ImageNet's own tars are such:
// n01440764.tar has n01440764_10026.JPEG. A shard without samples keeps its number. Sets labels,
// Schema::classes and Listing::has_classes_of_shards and returns true. Otherwise, or if the classes
// would be above the limits or two shards have the same name, changes nothing and returns false.
bool label_by_shards(Listing* listing);

// Puts the shard's name before every key and source path: "shard-000/000000". The name is the
// shard's path below the source's folder without ".tar"; a name that begins with "__" or "%" is
// escaped like a folder source's keys. Errors: kTooBig (a key or path above the limits),
// kUnsupported (two shards have the same name, or a name leads out of the folder).
Status qualify_keys(const ResolvedSource& places, Listing* listing);

}  // namespace forebay::store
