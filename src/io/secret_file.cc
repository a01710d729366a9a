#include "io/secret_file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <list>
#include <system_error>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "io/descriptor.h"
#include "io/file_system.h"
#include "io/scratch_files.h"
#include "io/write_path.h"

namespace forebay::io {

using base::Code;
using base::fail;

namespace {

constexpr size_t kRandomBytes = 32;
constexpr std::string_view kSalt = "forebay secret 1";
constexpr uint64_t kScryptN = 1u << 15;
constexpr uint64_t kScryptR = 8;
constexpr uint64_t kScryptBytes = 64u << 20;  // what OpenSSL may take for it
constexpr size_t kRemembered = 8;             // stretched secrets of this process

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

tl::unexpected<Status> fail_errno(std::string_view what, const std::string& path) {
  const int error = errno;
  const Code code = error == EEXIST   ? Code::kExists
                    : error == ENOENT ? Code::kNotFound
                    : error == ENOSPC ? Code::kNoSpace
                                      : Code::kIo;
  return fail(code, "cannot {} {}: {}", what, path, std::generic_category().message(error));
}

}  // namespace

Result<Secret> new_secret() {
  std::array<uint8_t, kRandomBytes> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    return fail(Code::kIo, "the system gives no random numbers");
  std::string text = base::to_hex(random);
  Secret::wipe(random.data(), random.size());
  return Secret::take(text);
}

Result<Secret> read_secret_file(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info{};
  if (fd.get() < 0 || ::fstat(fd.get(), &info) != 0) return fail_errno("open", path);
  // The same rule as that of ssh: a file of somebody else, such as root, is that person's matter.
  if (S_ISREG(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 077) != 0) {
    return fail(Code::kInvalid,
                "{}: other users can read this secret or write to it (mode {:03o}); run chmod 600 "
                "on it, and change the secret if others may have seen it",
                path, info.st_mode & 0777);
  }
  base::ByteVector bytes(base::kSecretFileBytesMax + 1);
  size_t filled = 0;
  for (ssize_t got = 1; got > 0 && filled < bytes.size();) {
    got = ::read(fd.get(), bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno != EINTR) return fail_errno("read", path);
    filled += got < 0 ? 0 : static_cast<size_t>(got);
    if (got < 0) got = 1;  // interrupted
  }
  if (filled == bytes.size()) {
    return fail(Code::kTooBig, "{}: a secret has at most {} bytes", path,
                base::kSecretFileBytesMax);
  }
  while (filled > 0 && (bytes[filled - 1] == '\n' || bytes[filled - 1] == '\r')) --filled;
  Secret secret(base::as_text(base::Bytes(bytes).first(filled)));
  Secret::wipe(bytes.data(), bytes.size());
  return secret;
}

Status make_secret_file(const std::string& path) {
  ASSIGN_OR_RETURN(const Secret secret, new_secret());
  ASSIGN_OR_RETURN(const WritePath to, WritePath::open(path));
  Descriptor fd(::openat(to.folder(), to.name(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd.get() < 0 && errno == EEXIST) {
    return fail(Code::kExists, "{} is there already; name a new file", path);
  }
  if (fd.get() < 0) return fail_errno("make", path);
  const std::string_view text = secret.reveal();
  const bool is_written =
      ::fchmod(fd.get(), 0600) == 0 &&
      ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::write(fd.get(), "\n", 1) == 1 && fd.close();
  if (is_written) return {};
  const Status failed = fail_errno("write", path).value();
  ::unlinkat(to.folder(), to.name(), 0);
  return failed;
}

Result<Secret> own_secret(bool make) {
  const std::string home = variable("HOME");
  std::string state = variable("XDG_STATE_HOME");
  if (!state.starts_with('/') && home.starts_with('/')) state = join_path(home, ".local/state");
  if (!state.starts_with('/')) {
    return fail(Code::kNotFound,
                "this user has no home folder for a secret (neither XDG_STATE_HOME nor HOME is "
                "set); name a file with one");
  }
  const std::string folder = join_path(state, "forebay");
  const std::string path = join_path(folder, "secret");
  if (make) {
    RETURN_IF_ERROR(make_private_folder(folder));
    // Another process may make it at the same time. Nobody sees an unfinished one, because it gets
    // its name when it is written.
    const std::string unfinished = join_path(folder, random_file_name());
    if (::access(path.c_str(), F_OK) != 0) {
      RETURN_IF_ERROR(make_secret_file(unfinished));
      const bool is_named = ::link(unfinished.c_str(), path.c_str()) == 0 || errno == EEXIST;
      const Status failed = is_named ? Status() : Status(fail_errno("make", path).value());
      ::unlink(unfinished.c_str());
      RETURN_IF_ERROR(failed);
    }
  }
  return read_secret_file(path);
}

std::string token_of(const Secret& secret, std::string_view purpose) {
  std::array<uint8_t, EVP_MAX_MD_SIZE> tag{};
  unsigned int size = 0;
  const std::string_view key = secret.reveal();
  FOREBAY_CHECK(::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                       reinterpret_cast<const uint8_t*>(purpose.data()), purpose.size(), tag.data(),
                       &size) != nullptr);
  return base::to_hex(base::Bytes(tag).first(size));
}

Result<Secret> stretched(const Secret& secret) {
  struct Made {
    Secret from;
    Secret to;
  };
  static base::Mutex mutex;
  static std::list<Made> remembered;  // most recently used first
  base::MutexLock lock(mutex);
  for (auto at = remembered.begin(); at != remembered.end(); ++at) {
    if (at->from != secret) continue;
    remembered.splice(remembered.begin(), remembered, at);
    return remembered.front().to;
  }
  std::string key(kRandomBytes, '\0');
  const std::string_view text = secret.reveal();
  if (::EVP_PBE_scrypt(text.data(), text.size(), reinterpret_cast<const uint8_t*>(kSalt.data()),
                       kSalt.size(), kScryptN, kScryptR, 1, kScryptBytes,
                       reinterpret_cast<uint8_t*>(key.data()), key.size()) != 1) {
    return fail(Code::kIo, "OpenSSL cannot stretch a secret");
  }
  remembered.push_front({secret, Secret::take(key)});
  if (remembered.size() > kRemembered) remembered.pop_back();
  return remembered.front().to;
}

}  // namespace forebay::io
