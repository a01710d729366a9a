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
MemoryLocation memory_location(std::string_view common);

struct MachineLocations {
  std::string folder;  // CacheOptions::folder
  MemoryLocation memory;
};
// The locations for the folder that a user names; links and dots in its path make no difference.
MachineLocations locations_in(const std::string& folder);

}  // namespace forebay::cache
