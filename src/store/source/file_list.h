// Lists images whose files the caller names one by one, wherever they lie.
#pragma once

#include "store/source/source.h"

namespace forebay::store {

// Lists these files, in this order; a file may come several times. Listing::root is the folder that
// all of them have in common. Keys are made like those of a folder source, and equal files have
// equal keys. Samples have no classes. Errors: kInvalid (no files), kNotFound (the message counts
// the files that are missing), kUnsupported (not a regular file), kTooBig, those of the disk.
Result<Listing> list_files(const io::Origin& origin, const std::vector<std::string>& paths);

}  // namespace forebay::store
