// Files of bytes that can be had again from elsewhere, written at any place: what a cache keeps on
// a disk or in memory (a tmpfs). A file has holes where nothing was written. Nothing is synced:
// after a power loss the bytes may be wrong.
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

// Makes a folder that is this user's alone, with those that it is in. Errors: kIo where it is there
// and belongs to somebody else, or is a link; those of making it.
Status make_private_folder(const std::string& path);

// A name for one of the files, which nobody can guess and nothing else has.
std::string random_file_name();

// One of the files, open. Only the sources of io/ use its descriptor.
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

// A folder of such files, for one process at a time. Any thread may call anything.
class ScratchFiles {
 public:
  // Makes the folder if need be. Errors: those of make_private_folder(), kNoSpace; kBusy where
  // another process has it; kInvalid where it holds other things.
  static Result<std::unique_ptr<ScratchFiles>> open(const std::string& folder, Found found);
  // Removes the folders in `parent` whose names begin with `prefix` and whose processes were
  // killed.
  static void remove_abandoned(const std::string& parent, const std::string& prefix);
  // Removes the files and the folder, unless they shall stay.
  ~ScratchFiles();
  ScratchFiles(const ScratchFiles&) = delete;
  ScratchFiles& operator=(const ScratchFiles&) = delete;

  const std::string& folder() const { return folder_; }
  void stay() { stays_ = true; }
  // The names of the files that are there.
  Result<std::vector<std::string>> names() const;
  // A file of the caller's, which describes the others.
  std::string list_path() const;
  // The file `name`, which is 64 hexadecimal digits, and is made if need be. The files that were
  // used last stay open. Errors: kNoSpace, kIo.
  Result<std::shared_ptr<const ScratchFile>> file(const std::string& name) const EXCLUDES(mutex_);
  // Errors: those of file(); kNoSpace, kIo.
  Status write(const std::string& name, uint64_t offset, Bytes bytes) const;
  // The file does not stay open. What was written is then there for other machines too, where they
  // share the file system and open it afterwards.
  void close(const std::string& name) const EXCLUDES(mutex_);
  // Errors: those of file(); kIo, kTruncated.
  Status read(const std::string& name, uint64_t offset, MutableBytes out) const;
  // Gives the blocks of these bytes back. False where the file system cannot.
  bool punch(const std::string& name, uint64_t offset, uint64_t length) const;
  // The same from `size` on.
  void cut(const std::string& name, uint64_t size) const;
  // The file gets another name, which no other file has. Errors: kNotFound, kIo.
  Status rename(const std::string& from, const std::string& to) const EXCLUDES(mutex_);
  // Nobody uses the file any more.
  void remove(const std::string& name) const EXCLUDES(mutex_);

 private:
  ScratchFiles(std::string folder, std::unique_ptr<FileLock> lock);
  Status clear() const;

  const std::string folder_;
  const std::unique_ptr<FileLock> lock_;  // on a file in the folder
  const size_t open_files_;               // that stay open
  std::atomic<bool> stays_ = false;
  struct Opened {
    std::string name;
    std::shared_ptr<const ScratchFile> file;
  };
  using OpenFiles = std::list<Opened>;
  mutable base::Mutex mutex_;
  mutable OpenFiles open_ GUARDED_BY(mutex_);  // the one that was used last comes first
  mutable std::unordered_map<std::string_view, OpenFiles::iterator> by_name_ GUARDED_BY(mutex_);
};

}  // namespace forebay::io
