// The real file system, through POSIX calls. Files are read with pread and never mapped: if
// somebody truncates a mapped file, the process dies.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/limits.h"
#include "io/blocking_file.h"
#include "io/children.h"
#include "io/descriptor.h"
#include "io/disk.h"
#include "io/large_buffer.h"
#include "io/write_path.h"

namespace forebay::io {
namespace {

using base::Code;
using base::fail;

Code code_of(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return Code::kNotFound;
    case EEXIST:
      return Code::kExists;
    case ENOSPC:
    case EDQUOT:
      return Code::kNoSpace;
    case ENOMEM:
      return Code::kNoMemory;
    default:
      return Code::kIo;
  }
}

tl::unexpected<Status> fail_errno(std::string_view what, const std::string& path) {
  const int error = errno;
  return fail(code_of(error), "cannot {} {}: {}{}", what, path,
              std::generic_category().message(error), error == EMFILE ? kFewDescriptors : "");
}

int open_retrying(int folder, const char* path, int flags) {
  int fd = -1;
  do {
    fd = ::openat(folder, path, flags | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

int open_retrying(const std::string& path, int flags) {
  return open_retrying(AT_FDCWD, path.c_str(), flags);
}

int open_retrying(const WritePath& path, int flags) {
  return open_retrying(path.folder(), path.name(), flags);
}

FileType type_of(mode_t mode) {
  if (S_ISREG(mode)) return FileType::kFile;
  if (S_ISDIR(mode)) return FileType::kDirectory;
  return FileType::kOther;
}

int64_t modified_ns(const struct stat& info) {
  return info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
}

Identity identity_of(const struct stat& info) {
  return {.size = static_cast<uint64_t>(info.st_size), .modified_ns = modified_ns(info)};
}

class PosixFile final : public BlockingFile {
 public:
  PosixFile(int fd, std::string path, Identity identity)
      : BlockingFile(std::move(path), std::move(identity)), fd_(fd) {}

 private:
  Result<size_t> read_some(uint64_t offset, MutableBytes out) const override {
    for (;;) {
      const ssize_t got = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) return fail_errno("read", path());
    }
  }

  Descriptor fd_;
};

// Reads that bypass the page cache (O_DIRECT). They need whole blocks and aligned addresses, so
// other reads go through a buffer.
class DirectFile final : public BlockingFile {
 public:
  DirectFile(int fd, std::string path, Identity identity)
      : BlockingFile(std::move(path), std::move(identity)), fd_(fd) {}

 private:
  static constexpr size_t kBounceBytes = 1u << 20;

  Result<size_t> read_some(uint64_t offset, MutableBytes out) const override {
    const bool aligned = offset % kDirectAlignment == 0 && out.size() >= kDirectAlignment &&
                         reinterpret_cast<uintptr_t>(out.data()) % kDirectAlignment == 0;
    if (aligned) {
      return read_blocks(offset, out.first(out.size() / kDirectAlignment * kDirectAlignment));
    }
    // Reads through the buffer up to the next offset from which blocks can be read directly, or, if
    // there is none, all bytes.
    const uint64_t first = offset / kDirectAlignment * kDirectAlignment;
    const size_t skipped = static_cast<size_t>(offset - first);
    const bool fits = (reinterpret_cast<uintptr_t>(out.data()) - skipped) % kDirectAlignment == 0;
    const size_t most = fits ? kDirectAlignment : kBounceBytes;
    const size_t wanted = std::min(out.size(), most - skipped);
    const LargeBuffer bounce(skipped + wanted);
    const size_t blocks = (skipped + wanted + kDirectAlignment - 1) / kDirectAlignment;
    ASSIGN_OR_RETURN(const size_t got,
                     read_blocks(first, {bounce.data(), blocks * kDirectAlignment}));
    if (got <= skipped) return size_t{0};
    const size_t useful = std::min(got - skipped, wanted);
    std::memcpy(out.data(), bounce.data() + skipped, useful);
    return useful;
  }

  Result<size_t> read_blocks(uint64_t offset, MutableBytes out) const {
    bool plain = false;
    while (true) {
      const ssize_t got = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (got >= 0) return static_cast<size_t>(got);
      if (errno == EINTR) continue;
      if (errno != EINVAL || std::exchange(plain, true)) return fail_errno("read", path());
      // The file system needs larger blocks than these, or accepted O_DIRECT without supporting it.
      const int flags = ::fcntl(fd_.get(), F_GETFL);
      if (flags < 0 || ::fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT) != 0) {
        return fail_errno("read", path());
      }
    }
  }

  Descriptor fd_;
};

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  // Small pieces go through a buffer: one copy that stays in the processor's cache costs less than
  // half of what the kernel takes to collect many pieces from memory (writev).
  Status append_pieces(std::span<const Bytes> pieces) override {
    if (pieces.size() == 1) return write_all(pieces[0]);
    base::ByteVector buffer;
    buffer.reserve(kBufferBytes);
    for (Bytes piece : pieces) {
      while (!piece.empty()) {
        const size_t step = std::min(piece.size(), kBufferBytes - buffer.size());
        buffer.insert(buffer.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(step));
        piece = piece.subspan(step);
        if (buffer.size() < kBufferBytes) continue;
        RETURN_IF_ERROR(write_all(buffer));
        buffer.clear();
      }
    }
    return write_all(buffer);
  }

  Status sync() override {
    if (::fsync(fd_.get()) != 0) return fail_errno("sync", path_);
    return {};
  }

  Status close() override {
    if (::close(fd_.release()) != 0) return fail_errno("close", path_);
    return {};
  }

 private:
  static constexpr size_t kBufferBytes = 1u << 20;

  Status write_all(Bytes data) {
    while (!data.empty()) {
      const size_t step = std::min<size_t>(data.size(), 1u << 30);
      const ssize_t put = ::write(fd_.get(), data.data(), step);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return fail_errno("write", path_);
      data = data.subspan(static_cast<size_t>(put));
    }
    return {};
  }

  Descriptor fd_;
  std::string path_;
};

// Forked children do not inherit the lock, so that it ends with the process that took it.
class PosixLock final : public FileLock {
 public:
  explicit PosixLock(int fd) : fd_(fd), process_(::getpid()) { close_in_children(fd); }
  ~PosixLock() override {
    if (::getpid() == process_) {
      keep_in_children(fd_.get());
    } else {
      fd_.release();
    }
  }
  PosixLock(const PosixLock&) = delete;
  PosixLock& operator=(const PosixLock&) = delete;

 private:
  Descriptor fd_;
  const pid_t process_;
};

class PosixFileSystem final : public DiskFileSystem {
 public:
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path,
                                             const OpenOptions& options) const override {
    return options.cached ? open_cached(path) : open_uncached(path);
  }

  static Result<std::unique_ptr<ReadableFile>> open_cached(const std::string& path) {
    // Without O_NONBLOCK, opening a FIFO waits for a writer forever.
    Descriptor fd(open_retrying(path, O_RDONLY | O_NONBLOCK));
    if (fd.get() < 0) return fail_errno("open", path);
    struct stat info{};
    if (::fstat(fd.get(), &info) != 0) return fail_errno("stat", path);
    if (io::type_of(info.st_mode) != FileType::kFile) {
      return fail(Code::kUnsupported, "cannot open {}: not a regular file", path);
    }
    return std::make_unique<PosixFile>(fd.release(), path, identity_of(info));
  }

  static Result<std::unique_ptr<ReadableFile>> open_uncached(const std::string& path) {
    // Not every file system supports O_DIRECT; open_cached() reports other errors.
    Descriptor fd(open_retrying(path, O_RDONLY | O_NONBLOCK | O_DIRECT));
    struct stat info{};
    const bool usable = fd.get() >= 0 && ::fstat(fd.get(), &info) == 0 &&
                        io::type_of(info.st_mode) == FileType::kFile;
    if (!usable) return open_cached(path);
    return std::make_unique<DirectFile>(fd.release(), path, identity_of(info));
  }

  // Never writes into a file that is there already, which may be a link: it is removed first.
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    ASSIGN_OR_RETURN(const WritePath to, WritePath::open(path));
    for (int tries = 0; tries < base::kCreateTriesMax; ++tries) {
      const int fd = open_retrying(to, O_WRONLY | O_CREAT | O_EXCL);
      if (fd >= 0) return std::make_unique<PosixWritableFile>(fd, path);
      if (errno != EEXIST || (::unlinkat(to.folder(), to.name(), 0) != 0 && errno != ENOENT)) break;
    }
    return fail_errno("create", path);
  }

  Result<std::unique_ptr<WritableFile>> append_to(const std::string& path) override {
    ASSIGN_OR_RETURN(const WritePath to, WritePath::open(path, LastLink::kFollow));
    const int link = to.is_kernel_link() ? 0 : O_NOFOLLOW;
    const int fd = open_retrying(to, O_WRONLY | O_CREAT | O_APPEND | link);
    if (fd < 0) return fail_errno("open", path);
    return std::make_unique<PosixWritableFile>(fd, path);
  }

  Status rename(const std::string& from, const std::string& to) override {
    ASSIGN_OR_RETURN(const WritePath old, WritePath::open(from));
    ASSIGN_OR_RETURN(const WritePath target, WritePath::open(to));
    if (::renameat(old.folder(), old.name(), target.folder(), target.name()) == 0) return {};
    return fail_errno("rename to", to);
  }

  Status remove(const std::string& path) override {
    ASSIGN_OR_RETURN(const WritePath at, WritePath::open(path));
    const bool is_removed =
        ::unlinkat(at.folder(), at.name(), 0) == 0 ||
        (errno == EISDIR && ::unlinkat(at.folder(), at.name(), AT_REMOVEDIR) == 0);
    if (is_removed) return {};
    return fail_errno("remove", path);
  }

  Status make_dir(const std::string& path) override {
    ASSIGN_OR_RETURN(const WritePath at, WritePath::open(path));
    if (::mkdirat(at.folder(), at.name(), 0777) != 0) return fail_errno("make the folder", path);
    return {};
  }

  Status sync_dir(const std::string& path) override {
    const Descriptor fd(open_retrying(path, O_RDONLY | O_DIRECTORY));
    if (fd.get() < 0) return fail_errno("open", path);
    if (::fsync(fd.get()) != 0) return fail_errno("sync", path);
    return {};
  }

  Result<std::vector<DirEntry>> list(const std::string& path) const override {
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path.c_str()), &::closedir);
    if (!dir) return fail_errno("list", path);
    std::vector<DirEntry> entries;
    errno = 0;
    while (const dirent* entry = ::readdir(dir.get())) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      entries.push_back({std::string(name), type_of(path, *entry)});
      errno = 0;
    }
    if (errno != 0) return fail_errno("list", path);
    std::sort(entries.begin(), entries.end(),
              [](const DirEntry& a, const DirEntry& b) { return a.name < b.name; });
    return entries;
  }

  Result<FileInfo> stat(const std::string& path) const override {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) return fail_errno("stat", path);
    return FileInfo{.type = type_of(info.st_mode),
                    .size = static_cast<uint64_t>(info.st_size),
                    .modified_ns = io::modified_ns(info),
                    .allocated = static_cast<uint64_t>(info.st_blocks) * 512};
  }

  std::string canonical(const std::string& path) const override {
    std::error_code error;
    const auto absolute = std::filesystem::absolute(path, error);
    const auto found = std::filesystem::weakly_canonical(absolute, error);
    std::string name = error ? absolute.lexically_normal().string() : found.string();
    while (name.size() > 1 && name.back() == '/') name.pop_back();
    return name;
  }

  Result<std::unique_ptr<FileLock>> lock_file(const std::string& path) override {
    for (int tries = 0; tries < base::kLockTriesMax; ++tries) {
      ASSIGN_OR_RETURN(const WritePath at, WritePath::open(path));
      Descriptor fd(open_retrying(at, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK));
      if (fd.get() < 0) return fail_errno("open", path);
      if (!is_lock(fd.get())) {
        return fail(Code::kIo,
                    "cannot lock {}: it is not a lock of Forebay, so it is left as it is; remove "
                    "it, or name another folder",
                    path);
      }
      if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) return fail_errno("lock", path);
        char holder[32] = {};
        const ssize_t length = ::pread(fd.get(), holder, sizeof holder - 1, 0);
        return fail(Code::kBusy, "{} is held by process {}; wait for it to end, or stop it", path,
                    length > 0 ? holder : "(unknown)");
      }
      // Another holder may have removed the file after it was opened here. A lock on the removed
      // file would exclude nobody.
      if (!is_at(fd.get(), at)) continue;
      const std::string self = std::to_string(::getpid());
      if (::ftruncate(fd.get(), 0) != 0 ||
          ::pwrite(fd.get(), self.data(), self.size(), 0) != static_cast<ssize_t>(self.size())) {
        return fail_errno("write", path);
      }
      return std::make_unique<PosixLock>(fd.release());
    }
    return fail(
        Code::kIo,
        "cannot lock {}: in each of {} attempts, another file had taken its place; does the "
        "file system change the inode numbers of files?",
        path, base::kLockTriesMax);
  }

 private:
  // Whether it is a file of its own name alone that is empty or has a process's number.
  static bool is_lock(int fd) {
    struct stat info{};
    char text[32] = {};
    if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink > 1) return false;
    const ssize_t length = ::pread(fd, text, sizeof text, 0);
    return length >= 0 && length < static_cast<ssize_t>(sizeof text) &&
           std::string_view(text).find_first_not_of("0123456789") == std::string_view::npos;
  }
  static bool is_at(int fd, const WritePath& path) {
    struct stat opened{};
    struct stat found{};
    return ::fstat(fd, &opened) == 0 &&
           ::fstatat(path.folder(), path.name(), &found, AT_SYMLINK_NOFOLLOW) == 0 &&
           opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
  }
  static FileType type_of(const std::string& directory, const dirent& entry) {
    if (entry.d_type == DT_REG) return FileType::kFile;
    if (entry.d_type == DT_DIR) return FileType::kDirectory;
    struct stat info{};
    if (::stat(join_path(directory, entry.d_name).c_str(), &info) != 0) return FileType::kOther;
    return io::type_of(info.st_mode);
  }
  static FileType type_of(mode_t mode) { return io::type_of(mode); }
};

}  // namespace

bool is_locked(const std::string& path) {
  const Descriptor fd(open_retrying(path, O_RDONLY));
  return fd.get() >= 0 && ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

FileSystem& posix_file_system() {
  static PosixFileSystem file_system;
  return file_system;
}

}  // namespace forebay::io
