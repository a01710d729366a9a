// Where a machine's cache lies, derived from a text that its processes share. So they find each
// other and can reuse what earlier processes held.
#pragma once

#include <string>
#include <string_view>

namespace forebay::cache {

struct MemoryLocation {
  std::string folder;  // CacheOptions::memory_folder
  std::string prefix;  // CacheOptions::memory_prefix
};
// Several names follow from `common`. This is the first of them under which no other user has a
// folder in memory, or in the folder `beside` unless that is empty.
MemoryLocation memory_location(std::string_view common, const std::string& beside = {});

struct MachineLocations {
  std::string folder;  // CacheOptions::folder
  MemoryLocation memory;
};
// The locations for the folder that a user names; links and dots in its path make no difference.
MachineLocations locations_in(const std::string& folder);

}  // namespace forebay::cache
