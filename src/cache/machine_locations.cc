#include "cache/machine_locations.h"

#include "base/checksum.h"
#include "io/file_system.h"
#include "io/machine.h"
#include "io/scratch_files.h"

namespace forebay::cache {

namespace {

constexpr const char* kMemory = "/dev/shm";  // a tmpfs
constexpr int kNames = 100;

}  // namespace

// Others may know the job's name, and make a folder of the same name first, to stop the job. Then
// all processes of the job go on to the next name.
MemoryLocation memory_location(std::string_view common, const std::string& beside) {
  const std::string prefix = fmt::format("forebay-{}-", io::user_id());
  const std::string hash = base::to_hex(base::sha256(base::as_bytes(common)));
  std::string name = prefix + hash.substr(0, 16);
  for (int number = 1; number < kNames; ++number) {
    const bool is_ours = io::is_own_or_missing(io::join_path(kMemory, name)) &&
                         (beside.empty() || io::is_own_or_missing(io::join_path(beside, name)));
    if (is_ours) break;
    name = fmt::format("{}{}-{}", prefix, hash.substr(0, 16), number);
  }
  return {.folder = io::join_path(kMemory, name), .prefix = prefix};
}

MachineLocations locations_in(const std::string& folder) {
  const std::string canonical = io::posix_file_system().canonical(folder);
  return {.folder = io::join_path(canonical, "forebay-cache"),
          .memory = memory_location(canonical)};
}

}  // namespace forebay::cache
