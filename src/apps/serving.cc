#include "serving.h"

#include <future>
#include <stop_token>

#include "base/limits.h"
#include "io/file_system.h"

namespace forebay::apps {

base::Result<io::Secret> read_secret(const std::string& path) {
  auto bytes = io::posix_file_system().read_whole(path, base::kSecretFileBytesMax);
  if (!bytes) return tl::unexpected(bytes.error().at("--secret-file"));
  std::string text(bytes->begin(), bytes->end());
  io::Secret::wipe(bytes->data(), bytes->size());
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return io::Secret::take(text);
}

void wait_for_stop(const io::StopFlag& flag) {
  std::promise<void> stopped;
  const std::stop_callback on_stop(flag.token(), [&] { stopped.set_value(); });
  stopped.get_future().wait();
}

}  // namespace forebay::apps
