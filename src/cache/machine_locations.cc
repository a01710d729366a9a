#include "cache/machine_locations.h"

#include "base/checksum.h"
#include "io/file_system.h"
#include "io/machine.h"

namespace forebay::cache {

MemoryLocation memory_location(std::string_view common) {
  const std::string prefix = fmt::format("forebay-{}-", io::user_id());
  const std::string hash = base::to_hex(base::sha256(base::as_bytes(common)));
  return {.folder = fmt::format("/dev/shm/{}{}", prefix, hash.substr(0, 16)), .prefix = prefix};
}

MachineLocations locations_in(const std::string& folder) {
  const std::string canonical = io::posix_file_system().canonical(folder);
  return {.folder = io::join_path(canonical, "forebay-cache"),
          .memory = memory_location(canonical)};
}

}  // namespace forebay::cache
