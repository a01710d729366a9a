#include "cache/machine_places.h"

#include "base/checksum.h"
#include "io/file_system.h"
#include "io/machine.h"

namespace forebay::cache {

MemoryPlace memory_place(std::string_view common) {
  const std::string prefix = fmt::format("forebay-{}-", io::user_id());
  const std::string hash = base::to_hex(base::sha256(base::as_bytes(common)));
  return {.folder = fmt::format("/dev/shm/{}{}", prefix, hash.substr(0, 16)), .prefix = prefix};
}

MachinePlaces places_in(const std::string& folder) {
  const std::string canonical = io::posix_file_system().canonical(folder);
  return {.folder = io::join_path(canonical, "forebay-cache"), .memory = memory_place(canonical)};
}

}  // namespace forebay::cache
