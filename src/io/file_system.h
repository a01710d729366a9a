// The one seam to the operating system's files. Everything above reads and writes through it, so
// that a test can put a disk underneath that is full, fails or loses power.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace forebay::io {

using base::Bytes;
using base::MutableBytes;
using base::Result;
using base::Status;

// An open file for reading at any position. Any thread may call anything.
class RandomFile {
 public:
  virtual ~RandomFile() = default;
  virtual const std::string& path() const = 0;
  virtual Result<uint64_t> size() const = 0;
  // Fills all of `out` from `offset`; a file that ends before is kCorrupt ("truncated").
  virtual Status read(uint64_t offset, MutableBytes out) const = 0;
};

// A new file that is written from its start to its end by one thread. Closing without sync()
// keeps no promise about what a power loss leaves.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status append(Bytes data) = 0;
  // Everything appended so far is on the disk when this returns ok. A failure is final: the file
  // must be written anew, never synced again.
  virtual Status sync() = 0;
  virtual Status close() = 0;
};

enum class FileType : uint8_t { kFile, kDirectory, kOther };

struct FileInfo {
  FileType type = FileType::kOther;
  uint64_t size = 0;
  // Nanoseconds since 1970.
  int64_t modified_ns = 0;
  // Bytes that it takes on the disk, in whole file-system blocks.
  uint64_t allocated = 0;
};

struct DirEntry {
  std::string name;
  FileType type = FileType::kOther;  // of what a symbolic link points to
};

// Held while it lives.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

// Any thread may call anything. Paths are absolute or relative to the working directory.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // kUnsupported for what is no regular file; it never waits for one.
  virtual Result<std::unique_ptr<RandomFile>> open(const std::string& path) const = 0;
  // The same for a file whose bytes are not worth the page cache's memory: reads go around it
  // where the system can. Fastest into a LargeBuffer at an address that differs from the position
  // in the file by a multiple of kDirectAlignment.
  virtual Result<std::unique_ptr<RandomFile>> open_uncached(const std::string& path) const {
    return open(path);
  }
  // Creates or empties `path`.
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path) = 0;
  // Opens `path` for appending after `keep_bytes`; what stands behind is cut off.
  virtual Result<std::unique_ptr<WritableFile>> append_to(const std::string& path,
                                                          uint64_t keep_bytes) = 0;
  // Replaces `to` if it is there, atomically.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status remove(const std::string& path) = 0;
  // Also the parents; fine when it is there already.
  virtual Status make_dirs(const std::string& path) = 0;
  // Makes the names inside a directory as durable as sync() makes a file's bytes.
  virtual Status sync_dir(const std::string& path) = 0;
  // Sorted by name (bytes).
  virtual Result<std::vector<DirEntry>> list(const std::string& path) const = 0;
  // Follows symbolic links; kNotFound when nothing is there.
  virtual Result<FileInfo> stat(const std::string& path) const = 0;
  // The absolute path without links and dots, as far as it exists; two names of one place agree.
  virtual std::string canonical(const std::string& path) const = 0;
  // An exclusive lock between processes on the file `path`, which is made if need be; kBusy with
  // the holder's process id when another has it. It ends with the process. A holder may remove the
  // file as the last thing that it does before it lets go.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
};

// The real one; lives as long as the process.
FileSystem& posix_file_system();

// The whole file, at most `limit` bytes of it allowed (kTooBig).
Result<base::ByteVector> read_file(const FileSystem& fs, const std::string& path, uint64_t limit);

// Writes `data` to `path` so that at any instant, also after a power loss, either the old content
// or all of the new is there: `path`.tmp, sync, rename, sync of the directory.
Status write_file_atomically(FileSystem& fs, const std::string& path, Bytes data);

// "a/b" and "c" give "a/b/c"; the directory of "a/b/c" is "a/b", of "c" ".".
std::string join_path(std::string_view directory, std::string_view name);
std::string parent_path(std::string_view path);

}  // namespace forebay::io
