#include "io/scratch_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <random>
#include <system_error>

#include "base/checksum.h"
#include "io/machine.h"
#include "io/write_path.h"

namespace forebay::io {

using base::Code;
using base::fail;

namespace {

tl::unexpected<Status> fail_errno(std::string_view what, const std::string& path) {
  const int error = errno;
  const Code code = error == ENOSPC || error == EDQUOT ? Code::kNoSpace
                    : error == ENOENT                  ? Code::kNotFound
                                                       : Code::kIo;
  return fail(code, "cannot {} {}: {}", what, path, std::generic_category().message(error));
}

constexpr std::string_view kLockName = "lock";
constexpr std::string_view kListName = "list";
// How many files stay open: kOpenFiles, or fewer if the process may open only few files.
constexpr size_t kOpenFiles = 128;
constexpr size_t kOpenFilesShare = 16;
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

bool is_own_name(const std::string& name) {
  return name.size() == 64 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

Status make_private_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(parent_path(path), error);
  if (error) return fail(Code::kIo, "cannot make {}: {}", parent_path(path), error.message());
  ASSIGN_OR_RETURN(const WritePath at, WritePath::open(path));
  if (::mkdirat(at.folder(), at.name(), 0700) != 0 && errno != EEXIST)
    return fail_errno("make", path);
  const Descriptor folder(::openat(at.folder(), at.name(), kFolderFlags));
  struct stat info{};
  if (folder.get() < 0 || ::fstat(folder.get(), &info) != 0 || info.st_uid != ::geteuid()) {
    return fail(Code::kIo, "{}: is not a folder that belongs to this user; name another one", path);
  }
  if (::fchmod(folder.get(), 0700) != 0) return fail_errno("change the permissions of", path);
  return {};
}

bool is_own_or_missing(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return errno == ENOENT;
  return S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
}

std::string random_file_name() {
  std::random_device device;
  std::array<uint32_t, sizeof(base::Sha256) / sizeof(uint32_t)> numbers{};
  for (uint32_t& number : numbers) number = device();
  return base::to_hex({reinterpret_cast<const uint8_t*>(numbers.data()), sizeof numbers});
}

ScratchFiles::ScratchFiles(std::string folder, int opened, std::unique_ptr<FileLock> lock)
    : folder_(std::move(folder)),
      opened_(std::make_unique<const ScratchFile>(opened)),
      lock_(std::move(lock)),
      open_files_(std::clamp<uint64_t>(open_files_max() / kOpenFilesShare, 1, kOpenFiles)) {}

Result<std::unique_ptr<ScratchFiles>> ScratchFiles::open(const std::string& folder, Found found) {
  RETURN_IF_ERROR(make_private_folder(folder));
  ASSIGN_OR_RETURN(auto lock, posix_file_system().lock(join_path(folder, kLockName)));
  const int opened = ::open(folder.c_str(), kFolderFlags);
  if (opened < 0) return fail_errno("open", folder);
  std::unique_ptr<ScratchFiles> files(new ScratchFiles(folder, opened, std::move(lock)));
  if (found == Found::kRemove) {
    RETURN_IF_ERROR(files->clear());
  } else {
    RETURN_IF_ERROR(files->names());
  }
  return files;
}

void ScratchFiles::remove_abandoned(const std::string& parent, const std::string& prefix) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(parent, error), end; !error && at != end;
       at.increment(error)) {
    const std::string path = at->path();
    // If the folder is not locked, open() empties it and the destructor removes it.
    if (at->path().filename().string().starts_with(prefix))
      static_cast<void>(open(path, Found::kRemove));
  }
}

ScratchFiles::~ScratchFiles() {
  if (stays_) return;
  static_cast<void>(clear());
  ::unlinkat(opened_->fd(), kLockName.data(), 0);
  ::rmdir(folder_.c_str());
}

Result<std::vector<std::string>> ScratchFiles::names() const {
  std::vector<std::string> names;
  ASSIGN_OR_RETURN(const auto entries, posix_file_system().list(folder_));
  for (const DirEntry& entry : entries) {
    if (entry.name == kLockName || entry.name == kListName) continue;
    if (!is_own_name(entry.name)) {
      return fail(Code::kInvalid,
                  "{}: holds {}, which is not a file of Forebay; name an empty folder", folder_,
                  entry.name);
    }
    names.push_back(entry.name);
  }
  return names;
}

std::string ScratchFiles::list_path() const { return join_path(folder_, kListName); }

Status ScratchFiles::clear() const {
  ASSIGN_OR_RETURN(const std::vector<std::string> found, names());
  for (const std::string& name : found) {
    if (::unlinkat(opened_->fd(), name.c_str(), 0) != 0)
      return fail_errno("remove", join_path(folder_, name));
  }
  ::unlinkat(opened_->fd(), kListName.data(), 0);
  return {};
}

ScratchFile::~ScratchFile() { ::close(fd_); }

Result<std::shared_ptr<const ScratchFile>> ScratchFiles::file(const std::string& name) const {
  base::MutexLock lock(mutex_);
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    open_.splice(open_.begin(), open_, found->second);
    return open_.front().file;
  }
  const int fd =
      ::openat(opened_->fd(), name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return fail_errno("open", join_path(folder_, name));
  open_.push_front({name, std::make_shared<const ScratchFile>(fd)});
  by_name_[open_.front().name] = open_.begin();
  if (open_.size() > open_files_) {
    by_name_.erase(open_.back().name);
    open_.pop_back();
  }
  return open_.front().file;
}

Status ScratchFiles::write(const std::string& name, uint64_t offset, Bytes bytes) const {
  ASSIGN_OR_RETURN(const auto file, this->file(name));
  while (!bytes.empty()) {
    const ssize_t put =
        ::pwrite(file->fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail_errno("write", join_path(folder_, name));
    bytes = bytes.subspan(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  return {};
}

Status ScratchFiles::read(const std::string& name, uint64_t offset, MutableBytes out) const {
  ASSIGN_OR_RETURN(const auto file, this->file(name));
  while (!out.empty()) {
    const ssize_t got = ::pread(file->fd(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("read", join_path(folder_, name));
    if (got == 0) {
      return fail(Code::kTruncated, "{}: ends at byte {}", join_path(folder_, name), offset);
    }
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return {};
}

bool ScratchFiles::punch(const std::string& name, uint64_t offset, uint64_t length) const {
  const auto file = this->file(name);
  return file && ::fallocate((*file)->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                             static_cast<off_t>(offset), static_cast<off_t>(length)) == 0;
}

void ScratchFiles::cut(const std::string& name, uint64_t size) const {
  const auto file = this->file(name);
  if (file) static_cast<void>(::ftruncate((*file)->fd(), static_cast<off_t>(size)) == 0);
}

void ScratchFiles::close(const std::string& name) const {
  base::MutexLock lock(mutex_);
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return;
  const OpenFiles::iterator opened = found->second;
  by_name_.erase(found);
  open_.erase(opened);
}

Status ScratchFiles::rename(const std::string& from, const std::string& to) const {
  close(from);
  if (::renameat(opened_->fd(), from.c_str(), opened_->fd(), to.c_str()) == 0) return {};
  return fail_errno("rename", join_path(folder_, from));
}

void ScratchFiles::remove(const std::string& name) const {
  close(name);
  ::unlinkat(opened_->fd(), name.c_str(), 0);
}

}  // namespace forebay::io
