// Files of bytes that can be had again from elsewhere, written at any place: what a cache keeps on
// a disk or in memory (a tmpfs). A file has holes where nothing was written. Nothing is synced:
// after a power loss the bytes may be wrong.
#pragma once

#include <memory>
#include <string>

#include "io/file_system.h"

namespace forebay::io {

// Makes a folder that is this user's alone, with those that it is in. Errors: kIo where it is there
// and belongs to somebody else, or is a link; those of making it.
Status make_private_folder(const std::string& path);

// A folder of such files, for one process at a time. Any thread may call anything.
class ScratchFiles {
 public:
  // Makes the folder if need be, and empties it. Errors: those of make_private_folder(), kNoSpace;
  // kBusy where another process has it; kInvalid where it holds other things.
  static Result<std::unique_ptr<ScratchFiles>> open(const std::string& folder);
  // Removes the folders in `parent` whose names begin with `prefix` and whose processes were
  // killed.
  static void remove_abandoned(const std::string& parent, const std::string& prefix);
  // Removes the files and the folder.
  ~ScratchFiles();
  ScratchFiles(const ScratchFiles&) = delete;
  ScratchFiles& operator=(const ScratchFiles&) = delete;

  const std::string& folder() const { return folder_; }
  // Writes into the file `name`, which is made if need be: 64 hexadecimal digits. Errors: kNoSpace,
  // kIo.
  Status write(const std::string& name, uint64_t offset, Bytes bytes) const;
  // Errors: kIo, kTruncated, kNotFound.
  Status read(const std::string& name, uint64_t offset, MutableBytes out) const;
  // Bytes that can be written before the disk is full.
  uint64_t free_bytes() const;

 private:
  ScratchFiles(std::string folder, std::unique_ptr<FileLock> lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}
  Status clear() const;

  const std::string folder_;
  const std::unique_ptr<FileLock> lock_;  // on a file in the folder
};

}  // namespace forebay::io
