// Sparse files in which a cache holds copies, on a disk or in memory (a tmpfs). They are written at
// any offset, and have holes where nothing was written. Nothing is synced: after a power loss the
// bytes may be wrong.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "io/file_system.h"

namespace forebay::io {

// Makes a folder for this user alone, and its missing parents. Errors: kIo if it exists and belongs
// to somebody else, or is a link; errors of making it.
Status make_private_folder(const std::string& path);

// Whether nothing is at the path, or a folder of this user.
bool is_own_or_missing(const std::string& path);

// A new file name that is unique and cannot be guessed.
std::string random_file_name();

// An open scratch file, or their folder. Only the sources of io/ use its descriptor.
class ScratchFile {
 public:
  explicit ScratchFile(int fd) : fd_(fd) {}
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// What to do with files that an earlier process left.
enum class Found : uint8_t { kRemove, kUse };

// A folder of scratch files, for one process at a time. Any thread may call anything.
class ScratchFiles {
 public:
  // Makes the folder if it is missing. Errors: those of make_private_folder(), kNoSpace; kBusy if
  // another process uses it; kInvalid if it holds other files.
  static Result<std::unique_ptr<ScratchFiles>> open(const std::string& folder, Found found);
  // Removes the folders in `parent` whose names begin with `prefix` and whose processes were
  // killed.
  static void remove_abandoned(const std::string& parent, const std::string& prefix);
  // Removes the files and the folder, unless stay() was called.
  ~ScratchFiles();
  ScratchFiles(const ScratchFiles&) = delete;
  ScratchFiles& operator=(const ScratchFiles&) = delete;

  const std::string& folder() const { return folder_; }
  void stay() { stays_ = true; }
  // The names of the files that are there.
  Result<std::vector<std::string>> names() const;
  // The path of a file in which the caller describes the others.
  std::string list_path() const;
  // Opens the file `name`, which is 64 hexadecimal digits, and creates it if it is missing. The
  // most recently used files stay open. Errors: kNoSpace, kIo.
  Result<std::shared_ptr<const ScratchFile>> file(const std::string& name) const EXCLUDES(mutex_);
  // Errors: those of file(); kNoSpace, kIo.
  Status write(const std::string& name, uint64_t offset, Bytes bytes) const;
  // Closes the file. Other machines that share the file system and open the file afterwards see all
  // its bytes.
  void close(const std::string& name) const EXCLUDES(mutex_);
  // Errors: those of file(); kIo, kTruncated.
  Status read(const std::string& name, uint64_t offset, MutableBytes out) const;
  // Gives the disk blocks of these bytes back. False if the file system cannot.
  bool punch(const std::string& name, uint64_t offset, uint64_t length) const;
  // Truncates the file to `size` bytes.
  void cut(const std::string& name, uint64_t size) const;
  // Renames a file. No other file may have the new name. Errors: kNotFound, kIo.
  Status rename(const std::string& from, const std::string& to) const EXCLUDES(mutex_);
  // Removes the file, which nobody may use any more.
  void remove(const std::string& name) const EXCLUDES(mutex_);

 private:
  ScratchFiles(std::string folder, int opened, std::unique_ptr<FileLock> lock);
  Status clear() const;

  const std::string folder_;
  const std::unique_ptr<const ScratchFile> opened_;  // the folder
  const std::unique_ptr<FileLock> lock_;             // on a file in the folder
  const size_t open_files_;                          // how many files stay open
  std::atomic<bool> stays_ = false;
  struct Opened {
    std::string name;
    std::shared_ptr<const ScratchFile> file;
  };
  using OpenFiles = std::list<Opened>;
  mutable base::Mutex mutex_;
  mutable OpenFiles open_ GUARDED_BY(mutex_);  // most recently used first
  mutable std::unordered_map<std::string_view, OpenFiles::iterator> by_name_ GUARDED_BY(mutex_);
};

}  // namespace forebay::io
