// Files that can be written: reading (io/origin.h), and what changes names and bytes. A local disk
// and an object store can both do all of it: a file is put whole or not at all, removed, and
// listed. Nothing is renamed, and nobody makes folders. Why:
// docs/decisions/0013-writing-to-object-stores.md.
#pragma once

#include <span>

#include "io/origin.h"

namespace forebay::io {

// What must be at a path for a put to take place.
enum class PutIf : uint8_t {
  kAlways,     // anything or nothing
  kAbsent,     // nothing; otherwise the put fails with kExists
  kUnchanged,  // what it was when it was read; otherwise the put fails with kChanged
};

struct PutOptions {
  PutIf when = PutIf::kAlways;
  Identity known = {};  // with kUnchanged: the file's identity when it was read
  // False for what can be made again: a power loss may then leave an empty file. An object store
  // stores everything durably.
  bool durable = true;
};

// A file that is written from its start to its end by one thread. Closing without sync() promises
// nothing about what a power loss leaves.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // Appends the pieces, one after the other.
  virtual Status append_pieces(std::span<const Bytes> pieces) = 0;
  Status append(Bytes data) { return append_pieces({&data, 1}); }
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

// Any thread may call anything, but a path is put by one caller at a time unless the origin is an
// object store. Paths are absolute or relative to the working directory.
class FileSystem : public Origin {
 public:
  // Puts the pieces, one after the other, at `path`. At any instant, also after a power loss,
  // either the old content is there or all of the new. Folders that are missing are made. The
  // pieces stay in memory until this returns, so that several parts of them can be sent at once,
  // and sent again. An object store compares and replaces in one step. On a local disk these are
  // two steps, so callers whose condition must hold, hold a lock(). An origin that puts again
  // because an answer was lost must not take its own first attempt for somebody else's.
  // Errors: kExists, kChanged (the condition does not hold), kNoSpace, kIo, kUnavailable,
  // kTimedOut. After one of the last three the new content may be there all the same.
  virtual Status put_pieces(const std::string& path, std::span<const Bytes> pieces,
                            const PutOptions& options = {}) = 0;
  Status put(const std::string& path, Bytes data, const PutOptions& options = {}) {
    return put_pieces(path, {&data, 1}, options);
  }
  // Removes a file, or a folder that is empty. A power loss may bring it back. kNotFound when
  // nothing is there; an object store need not notice.
  virtual Status remove(const std::string& path) = 0;
  // An exclusive lock between processes on the file `path`, which is made if need be; kBusy with
  // the holder's process id when another process has it. The lock ends with the process. A holder
  // may remove the file as the last thing that it does before it lets go. Where the origin has no
  // locks there is nothing to hold: the pointer is empty, others may write at the same time, and
  // only the conditions of put() keep their work apart.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
  // Opens `path`, which is made if need be, for writing after its end. kUnsupported where files
  // can only be put whole.
  virtual Result<std::unique_ptr<WritableFile>> append_to(const std::string& path);
};

// How errors end where this process has too many files open.
inline constexpr std::string_view kFewDescriptors = "; raise the limit of this process (ulimit -n)";

// The operating system's files; it lives as long as the process.
FileSystem& posix_file_system();
// Whether a process holds that file's lock(); the file is not made. Those who ask do not disturb
// each other, but a lock() meanwhile may find the file busy.
bool is_locked(const std::string& path);

// Whether `name` is that of a file which a put() on a local disk had not finished when its process
// was killed. It harms nobody, and the next put() of the same path replaces it.
bool is_unfinished_put(std::string_view name);

}  // namespace forebay::io
