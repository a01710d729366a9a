// A file system with folders, renaming and syncing, like a local disk. It puts a whole file by the
// usual POSIX steps: write another file, sync it, rename it. The steps are virtual, so that the
// file systems for tests (memory.h, faulty.h) put files in the same way.
#pragma once

#include "io/file_system.h"

namespace forebay::io {

class DiskFileSystem : public FileSystem {
 public:
  // Writes a file with another name in the same folder, syncs it, checks the put's condition,
  // renames the file and syncs the folder.
  Status put_pieces(const std::string& path, std::span<const Bytes> pieces,
                    const PutOptions& options = {}) final;
  // Makes the folder of `path` if it is missing.
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) final;
  // Makes a folder and its missing parents; with `durable`, they survive a power loss. Returns ok
  // if the folder exists already, and kExists if a file has its name.
  Status make_dirs(const std::string& path, bool durable = true);

  // The steps begin here. Creates or empties `path`; kNotFound if its folder is missing.
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path) = 0;
  // Replaces `to` atomically if it exists.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  // Makes one folder; kExists when something has its name.
  virtual Status make_dir(const std::string& path) = 0;
  // Makes the names inside a folder as durable as sync() makes a file's bytes.
  virtual Status sync_dir(const std::string& path) = 0;
  // Like lock(), but kNotFound if the folder of `path` is missing.
  virtual Result<std::unique_ptr<FileLock>> lock_file(const std::string& path) = 0;

 private:
  Status write_new(const std::string& path, std::span<const Bytes> pieces, bool durable);
  Status check(const std::string& path, const PutOptions& options) const;
};

}  // namespace forebay::io
