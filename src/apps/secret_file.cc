#include "secret_file.h"

#include "base/limits.h"
#include "io/file_system.h"

namespace forebay::apps {

base::Result<io::Secret> read_secret(const std::string& path) {
  auto bytes = io::posix_file_system().read_whole(path, base::kSecretFileBytesMax);
  if (!bytes) return tl::unexpected(bytes.error());
  std::string text(bytes->begin(), bytes->end());
  io::Secret::wipe(bytes->data(), bytes->size());
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return io::Secret::take(text);
}

}  // namespace forebay::apps
