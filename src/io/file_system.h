// Files that can be written: reading (io/origin.h), and what changes names and bytes. This is the
// one seam to the operating system's files, so that a test can put a disk underneath that is full,
// fails or loses power.
#pragma once

#include "io/origin.h"

namespace forebay::io {

// A new file that is written from its start to its end by one thread. Closing without sync()
// promises nothing about what a power loss leaves.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status append(Bytes data) = 0;
  // Everything appended so far is on the disk when this returns ok. A failure is final: the file
  // must be written anew, never synced again.
  virtual Status sync() = 0;
  virtual Status close() = 0;
};

// A lock is held while its FileLock lives.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

// Any thread may call anything. Paths are absolute or relative to the working directory.
class FileSystem : public Origin {
 public:
  // Creates or empties `path`.
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path) = 0;
  // Opens `path` for appending after `keep_bytes`; the bytes after those are cut off.
  virtual Result<std::unique_ptr<WritableFile>> append_to(const std::string& path,
                                                          uint64_t keep_bytes) = 0;
  // Replaces `to` atomically if it exists.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status remove(const std::string& path) = 0;
  // Makes the parents too. A directory that exists already is fine.
  virtual Status make_dirs(const std::string& path) = 0;
  // Makes the names inside a directory as durable as sync() makes a file's bytes.
  virtual Status sync_dir(const std::string& path) = 0;
  // An exclusive lock between processes on the file `path`, which is made if need be; kBusy with
  // the holder's process id when another process has it. The lock ends with the process. A holder
  // may remove the file as the last thing that it does before it lets go.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
};

// The operating system's files; it lives as long as the process.
FileSystem& posix_file_system();

// Writes `data` to `path` so that at any instant, also after a power loss, either the old content
// or all of the new is there: writes `path`.tmp, syncs it, renames it, syncs the directory.
Status write_file_atomically(FileSystem& fs, const std::string& path, Bytes data);

}  // namespace forebay::io
