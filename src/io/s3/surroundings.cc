#include "io/s3/surroundings.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

#include "base/limits.h"
#include "io/ascii.h"
#include "io/file_system.h"

namespace forebay::io::s3 {
namespace {

// The home folder by HOME, or else by the user's entry in the system's list of users.
std::string home_folder() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
  std::vector<char> buffer(16 << 10);
  passwd entry{};
  passwd* found = nullptr;
  const int error = ::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found);
  return error == 0 && found != nullptr && found->pw_dir != nullptr ? found->pw_dir : "";
}

}  // namespace

std::string_view Surroundings::variable(std::string_view name) const {
  const auto found = variables.find(name);
  return found == variables.end() ? std::string_view() : found->second.reveal();
}

std::string Surroundings::path_of(std::string_view path) const {
  if (!path.starts_with("~/") || home.empty()) return std::string(path);
  return join_path(home, path.substr(2));
}

Result<Secret> Surroundings::read_secret(const std::string& path) const {
  ASSIGN_OR_RETURN(base::ByteVector bytes, files->read_whole(path, base::kSecretFileBytesMax));
  Secret secret(trimmed_end(base::as_text(bytes)));
  Secret::wipe(bytes.data(), bytes.size());
  return secret;
}

Surroundings surroundings_of_process() {
  Surroundings around{.home = home_folder(), .files = &posix_file_system()};
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (!text.starts_with("AWS_") || equals == std::string_view::npos) continue;
    around.variables.emplace(text.substr(0, equals), Secret(text.substr(equals + 1)));
  }
  return around;
}

}  // namespace forebay::io::s3
