// A file of the origin, as the cache knows it.
#pragma once

#include <memory>
#include <string>

#include "cache/held/extent_list.h"
#include "io/origin.h"

namespace forebay::cache {

// A file that the cache may hold.
struct CachedFile {
  std::string target;  // encode_target() of its name
  FileId id{};
  std::shared_ptr<const io::ReadableFile> file;  // at the origin
  bool waits = false;                            // whether a read blocks the calling thread
  std::shared_ptr<const void> owner = {};  // keeps alive what the file needs; null: its user does
};

}  // namespace forebay::cache
