// An origin (io/origin.h) that can also be written. It has only operations that both local disks
// and object stores support: put a whole file or nothing, remove it, list files. There is no
// renaming, and folders need not be made. Why: docs/decisions/0013-writing-to-object-stores.md.
#pragma once

#include <span>

#include "io/origin.h"

namespace forebay::io {

// The condition of a put: what must be at its path.
enum class PutIf : uint8_t {
  kAlways,     // anything or nothing
  kAbsent,     // nothing; otherwise the put fails with kExists
  kUnchanged,  // the same file as when it was read; otherwise the put fails with kChanged
};

struct PutOptions {
  PutIf when = PutIf::kAlways;
  Identity known = {};  // with kUnchanged: the file's identity when it was read
  // False for files that can be made again: a power loss may leave such a file empty. An object
  // store stores everything durably.
  bool durable = true;
};

// A file that one thread writes from its start to its end. If it was closed without sync(), a power
// loss may leave anything of it.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // Appends the pieces, one after the other.
  virtual Status append_pieces(std::span<const Bytes> pieces) = 0;
  Status append(Bytes data) { return append_pieces({&data, 1}); }
  // Everything appended so far is on the disk when this returns ok. A failure is final: the file
  // must be written again from its start, never synced again.
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
  // Writes the pieces, one after the other, as the file at `path`. At any instant, also after a
  // power loss, the file has its old content or all of the new content. Missing folders are made.
  // The pieces must stay in memory until this returns, because parts of them may be sent at the
  // same time and sent again. An object store checks the condition and replaces the object in one
  // step. On a local disk these are two steps, so callers that rely on a condition hold a lock().
  // An origin that puts again after a lost answer must recognise its own first attempt. Errors:
  // kExists, kChanged (the condition does not hold), kNoSpace, kIo, kUnavailable, kTimedOut. After
  // one of the last three, the file may have the new content nevertheless.
  virtual Status put_pieces(const std::string& path, std::span<const Bytes> pieces,
                            const PutOptions& options = {}) = 0;
  Status put(const std::string& path, Bytes data, const PutOptions& options = {}) {
    return put_pieces(path, {&data, 1}, options);
  }
  // Removes a file or an empty folder. A power loss may undo this. kNotFound if nothing is there,
  // but an object store may return ok.
  virtual Status remove(const std::string& path) = 0;
  // Takes an exclusive lock between processes on the file `path`, which is created if it is
  // missing. kBusy, with the holder's process id, if another process has the lock. The lock ends
  // with its process. A holder may remove the file just before it releases the lock. Without locks,
  // as in an object store, the pointer is null: others may write at the same time, and only the
  // conditions of put() protect their work from each other.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
  // Opens `path` for appending, and creates it if it is missing. kUnsupported if files can only be
  // put whole.
  virtual Result<std::unique_ptr<WritableFile>> append_to(const std::string& path);
};

// The end of error messages when this process has too many files open.
inline constexpr std::string_view kFewDescriptors = "; raise the limit of this process (ulimit -n)";

// The operating system's file system. It lives as long as the process.
FileSystem& posix_file_system();
// Whether a process holds the lock() of this file, which is not created. Calls do not disturb each
// other, but a lock() at the same time may return kBusy.
bool is_locked(const std::string& path);

// Whether a put() on a local disk gives this name to its file before it is complete. A killed
// process leaves such a file. It is harmless, and the next put() of the same path replaces it.
bool is_unfinished_put(std::string_view name);

}  // namespace forebay::io
