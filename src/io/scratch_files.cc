#include "io/scratch_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "io/descriptor.h"

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

bool is_own_name(const std::string& name) {
  return name.size() == 64 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

Status make_private_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(parent_path(path), error);
  if (error) return fail(Code::kIo, "cannot make {}: {}", parent_path(path), error.message());
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno("make", path);
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return fail_errno("stat", path);
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()) {
    return fail(Code::kIo, "{}: is not a folder of this user's; name another one", path);
  }
  if (::chmod(path.c_str(), 0700) != 0) return fail_errno("change the rights of", path);
  return {};
}

Result<std::unique_ptr<ScratchFiles>> ScratchFiles::open(const std::string& folder) {
  RETURN_IF_ERROR(make_private_folder(folder));
  ASSIGN_OR_RETURN(auto lock, posix_file_system().lock(join_path(folder, kLockName)));
  std::unique_ptr<ScratchFiles> files(new ScratchFiles(folder, std::move(lock)));
  RETURN_IF_ERROR(files->clear());
  return files;
}

void ScratchFiles::remove_abandoned(const std::string& parent, const std::string& prefix) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(parent, error), end; !error && at != end;
       at.increment(error)) {
    const std::string path = at->path();
    // What open() finds unlocked is emptied by it, and removed by the destructor.
    if (at->path().filename().string().starts_with(prefix)) static_cast<void>(open(path));
  }
}

ScratchFiles::~ScratchFiles() {
  static_cast<void>(clear());
  ::unlink(join_path(folder_, kLockName).c_str());
  ::rmdir(folder_.c_str());
}

Status ScratchFiles::clear() const {
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder_, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    if (name == kLockName) continue;
    if (!is_own_name(name)) {
      return fail(Code::kInvalid, "{}: holds {}, which is not Forebay's; name an empty folder",
                  folder_, name);
    }
    if (::unlink(at->path().c_str()) != 0) return fail_errno("remove", at->path());
  }
  if (error) return fail(Code::kIo, "cannot list {}: {}", folder_, error.message());
  return {};
}

Status ScratchFiles::write(const std::string& name, uint64_t offset, Bytes bytes) const {
  const std::string path = join_path(folder_, name);
  Descriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd.get() < 0) return fail_errno("open", path);
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail_errno("write", path);
    bytes = bytes.subspan(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  if (!fd.close()) return fail_errno("close", path);
  return {};
}

Status ScratchFiles::read(const std::string& name, uint64_t offset, MutableBytes out) const {
  const std::string path = join_path(folder_, name);
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (fd.get() < 0) return fail_errno("open", path);
  while (!out.empty()) {
    const ssize_t got = ::pread(fd.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("read", path);
    if (got == 0) return fail(Code::kTruncated, "{}: ends at byte {}", path, offset);
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return {};
}

uint64_t ScratchFiles::free_bytes() const {
  struct statvfs disk{};
  if (::statvfs(folder_.c_str(), &disk) != 0) return 0;
  return static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
}

}  // namespace forebay::io
