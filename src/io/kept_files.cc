#include "io/kept_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <system_error>
#include <vector>

#include "base/checksum.h"
#include "base/limits.h"
#include "io/ascii.h"
#include "io/descriptor.h"
#include "io/machine.h"
#include "io/origin.h"
#include "io/write_path.h"

namespace forebay::io {

using base::Bytes;
using base::ByteVector;
using base::MutexLock;

namespace {

// A file consists of this magic, which ends with the format's version, the number of content bytes,
// the CRC32C of the file's name and the content, and the content.
constexpr std::array<uint8_t, 8> kMagic = {'F', 'B', 'K', 'E', 'P', 'T', 0, 0};
constexpr size_t kFrameBytes = kMagic.size() + sizeof(uint64_t) + sizeof(uint32_t);
constexpr std::string_view kSuffix = ".kept";
constexpr std::string_view kUnfinishedSuffix = ".unfinished";
// An unfinished file older than this was left by a killed process.
constexpr int64_t kUnfinishedNs = 3'600'000'000'000;
// The folder is checked each time that 1/kCheckedShare of the limit was written. If it is too
// large, files are removed until 1/kFreedShare of the limit is free.
constexpr uint64_t kCheckedShare = 64;
constexpr uint64_t kFreedShare = 16;

uint32_t checksum(const std::string& name, Bytes content) {
  return base::crc32c(content, base::crc32c(base::as_bytes(name)));
}

bool read_all(int fd, base::MutableBytes out) {
  while (!out.empty()) {
    const ssize_t got = ::read(fd, out.data(), out.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out = out.subspan(static_cast<size_t>(got));
  }
  return true;
}

bool write_all(int fd, Bytes data) {
  while (!data.empty()) {
    const ssize_t put = ::write(fd, data.data(), data.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    data = data.subspan(static_cast<size_t>(put));
  }
  return true;
}

int64_t modified_ns(const struct stat& info) {
  return info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
}

// Whether only this user can have written the file, so that its content can be trusted as much as
// the program itself.
bool is_own(const struct stat& info) {
  return S_ISREG(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 022) == 0;
}

// Makes the folder and its missing parents, for this user alone.
bool make_private_folders(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return true;
  const std::string above = parent_path(folder);
  if (errno != ENOENT || above == folder || !make_private_folders(above)) return false;
  return ::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST;
}

constexpr size_t kHashDigits = 2 * sizeof(base::Sha256);

// Whether `name` has the form that put() takes. The folder may hold other programs' files, whose
// names are unlikely to have this form.
bool is_name(std::string_view name) {
  return name.size() > kHashDigits + 1 && name[kHashDigits] == '.' &&
         base::sha256_from_hex(name.substr(0, kHashDigits)).has_value() &&
         is_made_of_letters_and("-", name.substr(kHashDigits + 1));
}

bool is_kept(std::string_view file) {
  return file.ends_with(kSuffix) && is_name(file.substr(0, file.size() - kSuffix.size()));
}

// Whether this is the name of an unfinished file: three numbers, as write() gives it.
bool is_unfinished(std::string_view file) {
  if (!file.ends_with(kUnfinishedSuffix)) return false;
  file.remove_suffix(kUnfinishedSuffix.size());
  return std::ranges::count(file, '-') == 2 && file.front() != '-' && file.back() != '-' &&
         file.find("--") == std::string_view::npos &&
         file.find_first_not_of("0123456789-") == std::string_view::npos;
}

struct Found {
  int64_t used_ns = 0;
  uint64_t bytes = 0;
  std::string name;
};

// The kept files of a folder. Removes files that killed processes left unfinished.
std::vector<Found> list(const std::string& folder) {
  std::vector<Found> found;
  DIR* const entries = ::opendir(folder.c_str());
  if (entries == nullptr) return found;
  const int at = ::dirfd(entries);
  while (const dirent* entry = ::readdir(entries)) {
    const std::string_view name = entry->d_name;
    struct stat info{};
    const bool is_whole = is_kept(name);
    if (!is_whole && !is_unfinished(name)) continue;
    if (::fstatat(at, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(info.st_mode)) continue;
    if (is_whole) {
      found.push_back({.used_ns = modified_ns(info),
                       .bytes = static_cast<uint64_t>(info.st_size),
                       .name = std::string(name)});
    } else if (modified_ns(info) < wall_ns() - kUnfinishedNs) {
      ::unlinkat(at, entry->d_name, 0);
    }
  }
  ::closedir(entries);
  return found;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

std::string KeptFiles::path_of(const std::string& name) const {
  return join_path(options_.folder, name + std::string(kSuffix));
}

bool KeptFiles::has(const std::string& name) const {
  struct stat info{};
  return ::stat(path_of(name).c_str(), &info) == 0;
}

std::optional<ByteVector> KeptFiles::get(const std::string& name) const {
  const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const Descriptor fd(::open(path_of(name).c_str(), flags));
  struct stat info{};
  if (fd.get() < 0 || ::fstat(fd.get(), &info) != 0 || !is_own(info)) return std::nullopt;
  const auto bytes = static_cast<uint64_t>(info.st_size);
  if (bytes < kFrameBytes || bytes > kFrameBytes + base::kKeptFileBytesMax) return std::nullopt;
  std::array<uint8_t, kFrameBytes> frame{};
  ByteVector content(bytes - kFrameBytes);
  if (!read_all(fd.get(), frame) || !read_all(fd.get(), content)) return std::nullopt;
  const uint8_t* const numbers = frame.data() + kMagic.size();
  const bool is_right = std::equal(kMagic.begin(), kMagic.end(), frame.begin()) &&
                        base::load_le<uint64_t>(numbers) == content.size() &&
                        base::load_le<uint32_t>(numbers + 8) == checksum(name, content);
  if (!is_right) return std::nullopt;
  // The modification time tells when the file was last used. It stays as it is on a read-only disk,
  // which does no harm.
  ::futimens(fd.get(), nullptr);
  return content;
}

void KeptFiles::put(const std::string& name, Bytes content) const {
  FOREBAY_CHECK(is_name(name));
  if (!writes_ || content.size() > base::kKeptFileBytesMax) return;
  if (!write(name, content)) return;
  const uint64_t unchecked = unchecked_bytes_ += kFrameBytes + content.size();
  try {
    if (unchecked < bytes_max() / kCheckedShare) return;
    unchecked_bytes_ = 0;
    remove_oldest();
  } catch (const std::bad_alloc&) {
    // A later put checks the folder.
  }
}

// Whether the file was written.
bool KeptFiles::write(const std::string& name, Bytes content) const {
  if (!make_private_folders(options_.folder)) {
    give_up("make the folder", options_.folder);
    return false;
  }
  const auto folder = open_folder_to_write(options_.folder);
  if (!folder) {
    give_up(folder.error().message());
    return false;
  }
  static std::atomic<uint64_t> count = 0;
  // The name must be unique among all processes, including forked ones and those in other
  // containers.
  const std::string unfinished =
      fmt::format("{}-{}-{}{}", process_id(), wall_ns(), count++, kUnfinishedSuffix);
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  Descriptor fd(::openat(folder->get(), unfinished.c_str(), flags, 0600));
  if (fd.get() < 0) {
    give_up("write", join_path(options_.folder, unfinished));
    return false;
  }
  std::array<uint8_t, kFrameBytes> frame{};
  std::copy(kMagic.begin(), kMagic.end(), frame.begin());
  base::store_le(frame.data() + kMagic.size(), uint64_t{content.size()});
  base::store_le(frame.data() + kMagic.size() + 8, checksum(name, content));
  const bool is_written = write_all(fd.get(), frame) && write_all(fd.get(), content) &&
                          fd.close() &&
                          ::renameat(folder->get(), unfinished.c_str(), folder->get(),
                                     (name + std::string(kSuffix)).c_str()) == 0;
  if (is_written) return true;
  give_up("write", path_of(name));
  ::unlinkat(folder->get(), unfinished.c_str(), 0);
  return false;
}

void KeptFiles::give_up(std::string_view what, const std::string& path) const {
  give_up(fmt::format("cannot {} {}: {}", what, path, std::generic_category().message(errno)));
}

void KeptFiles::give_up(const std::string& why) const {
  MutexLock lock(mutex_);
  writes_ = false;
  if (trouble_.empty()) trouble_ = why;
}

std::string KeptFiles::trouble() const {
  MutexLock lock(mutex_);
  return trouble_;
}

uint64_t KeptFiles::bytes_max() const {
  if (options_.bytes_max) return *options_.bytes_max;
  struct statvfs disk{};
  if (::statvfs(options_.folder.c_str(), &disk) != 0) return base::kKeptBytesMax;
  return std::min(base::kKeptBytesMax, uint64_t{disk.f_bavail} * disk.f_frsize / 10);
}

// Another process may do the same at the same time.
void KeptFiles::remove_oldest() const {
  std::vector<Found> found = list(options_.folder);
  uint64_t bytes = 0;
  for (const Found& file : found) bytes += file.bytes;
  const uint64_t limit = bytes_max();
  if (bytes <= limit) return;
  std::ranges::sort(found, {}, &Found::used_ns);
  for (const Found& file : found) {
    if (bytes <= limit - limit / kFreedShare) return;
    ::unlink(join_path(options_.folder, file.name).c_str());
    bytes -= file.bytes;
  }
}

std::shared_ptr<const KeptFiles> kept_files(std::string folder) {
  if (folder.empty()) folder = variable("FOREBAY_INDEX_CACHE");
  if (folder == "off") return nullptr;
  if (folder.empty()) {
    const std::string home = variable("HOME");
    std::string caches = variable("XDG_CACHE_HOME");
    if (caches.empty() && !home.empty()) caches = join_path(home, ".cache");
    if (caches.empty()) return nullptr;
    folder = join_path(caches, "forebay");
  }
  return std::make_shared<const KeptFiles>(KeptFiles::Options{.folder = std::move(folder)});
}

}  // namespace forebay::io
