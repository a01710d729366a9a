#include "io/write_path.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <deque>
#include <optional>
#include <system_error>

#include "io/file_system.h"

namespace forebay::io {

using base::Code;
using base::fail;

namespace {

constexpr int kLinks = 40;  // as many links as the kernel follows
constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;

// The names of a path, in order; "" before the first name stands for the root.
std::deque<std::string> names_of(const std::string& path) {
  std::deque<std::string> names;
  if (path.starts_with('/')) names.emplace_back();
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (end > at) names.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

bool is_of_the_kernel(int fd) {
  struct statfs disk{};
  return ::fstatfs(fd, &disk) == 0 && disk.f_type == PROC_SUPER_MAGIC;
}

class Walk {
 public:
  explicit Walk(const std::string& path) : path_(path), left_(names_of(path)) {}

  // Walks until only the last name is left, which is no link unless links stay or the kernel made
  // it.
  Status run(LastLink last) {
    for (;;) {
      if (left_.empty()) left_.emplace_back(".");
      const bool is_last = left_.size() == 1 && !left_.front().empty();
      if (is_last && last == LastLink::kStays) return {};
      ASSIGN_OR_RETURN(const bool goes_on, is_last ? follow_last() : step());
      if (!goes_on) return {};
    }
  }

  const std::string& name() const { return left_.back(); }
  Descriptor take_folder() { return Descriptor(folder_.release()); }
  bool is_kernel_link() const { return is_kernel_link_; }

 private:
  // Enters the next folder, or puts a link's target in the place of its name.
  Result<bool> step() {
    const std::string name = left_.front();
    left_.pop_front();
    if (name.empty()) return enter(::openat(AT_FDCWD, "/", kFolderFlags), "/");
    const int opened = ::openat(at(), name.c_str(), kFolderFlags | O_NOFOLLOW);
    if (opened >= 0 || (errno != ELOOP && errno != ENOTDIR)) return enter(opened, name);
    ASSIGN_OR_RETURN(const std::optional<std::string> target, target_of(name));
    if (target) {
      insert(*target);
      return true;
    }
    return enter(::openat(at(), name.c_str(), kFolderFlags), name);
  }

  // False if the last name is no link that this program follows by itself.
  Result<bool> follow_last() {
    struct stat info{};
    const bool is_link =
        ::fstatat(at(), name().c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
    if (!is_link) return false;
    ASSIGN_OR_RETURN(const std::optional<std::string> target, target_of(name()));
    is_kernel_link_ = !target;
    if (!target) return false;
    left_.clear();
    insert(*target);
    return true;
  }

  // Where the link of that name leads; nothing if the kernel made it, or it is no link. Errors:
  // another user made it.
  Result<std::optional<std::string>> target_of(const std::string& name) {
    const Descriptor link(::openat(at(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info{};
    if (link.get() < 0 || ::fstat(link.get(), &info) != 0) return fail_errno(name);
    if (!S_ISLNK(info.st_mode) || is_of_the_kernel(link.get())) return std::nullopt;
    if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
      return fail(Code::kIo,
                  "cannot write {}: {} is a symbolic link that another user (number {}) made, and "
                  "could lead the write to any file; remove it, or name its target",
                  path_, name, info.st_uid);
    }
    if (++links_ > kLinks) {
      errno = ELOOP;
      return fail_errno(name);
    }
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlinkat(link.get(), "", target.data(), target.size());
    if (length < 0) return fail_errno(name);
    return std::string(target.data(), static_cast<size_t>(length));
  }

  void insert(const std::string& target) {
    const std::deque<std::string> names = names_of(target);
    left_.insert(left_.begin(), names.begin(), names.end());
  }

  Result<bool> enter(int opened, const std::string& name) {
    if (opened < 0) return fail_errno(name);
    folder_ = Descriptor(opened);
    return true;
  }

  tl::unexpected<Status> fail_errno(const std::string& name) const {
    const int error = errno;
    const Code code = error == ENOENT || error == ENOTDIR ? Code::kNotFound : Code::kIo;
    return fail(code, "cannot open {} on the way to {}: {}{}", name, path_,
                std::generic_category().message(error), error == EMFILE ? kFewDescriptors : "");
  }

  const std::string& path_;
  std::deque<std::string> left_;
  // A relative path begins in the working folder, which need not be readable.
  int at() const { return folder_.get() >= 0 ? folder_.get() : AT_FDCWD; }
  Descriptor folder_{-1};
  int links_ = 0;
  bool is_kernel_link_ = false;
};

}  // namespace

Result<WritePath> WritePath::open(const std::string& path, LastLink last) {
  // Most paths have no link, and then the kernel walks in one call.
  if (const size_t slash = path.find_last_of('/');
      last == LastLink::kStays && slash != std::string::npos && slash + 1 < path.size()) {
    struct open_how how{};
    how.flags = kFolderFlags;
    how.resolve = RESOLVE_NO_SYMLINKS;
    const std::string folder = path.substr(0, slash + 1);
    const auto opened = ::syscall(SYS_openat2, AT_FDCWD, folder.c_str(), &how, sizeof how);
    if (opened >= 0)
      return WritePath(Descriptor(static_cast<int>(opened)), path.substr(slash + 1), false);
  }
  Walk walk(path);
  RETURN_IF_ERROR(walk.run(last));
  return WritePath(walk.take_folder(), walk.name(), walk.is_kernel_link());
}

Result<Descriptor> open_folder_to_write(const std::string& path) {
  ASSIGN_OR_RETURN(WritePath found, WritePath::open(join_path(path, ".")));
  return found.take_folder();
}

}  // namespace forebay::io
