// A file system of folders whose files are renamed and synced, like a local disk. It puts a file
// whole by the steps that POSIX offers for it. The steps are virtual, so that the file system in
// memory and the one that fails on purpose take the same ones.
#pragma once

#include "io/file_system.h"

namespace forebay::io {

class DiskFileSystem : public FileSystem {
 public:
  // Writes a file of another name in the same folder, syncs it, compares, renames it and syncs the
  // folder.
  Status put_pieces(const std::string& path, std::span<const Bytes> pieces,
                    const PutOptions& options = {}) final;
  // Makes the folder of `path` too.
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) final;
  // Makes a folder and its parents, where `durable` is set so that a power loss leaves them. A
  // folder that exists already is fine; kExists when a file has its name.
  Status make_dirs(const std::string& path, bool durable = true);

  // The steps. Creates or empties `path`; kNotFound when its folder is missing.
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path) = 0;
  // Replaces `to` atomically if it exists.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  // Makes one folder; kExists when something has its name.
  virtual Status make_dir(const std::string& path) = 0;
  // Makes the names inside a folder as durable as sync() makes a file's bytes.
  virtual Status sync_dir(const std::string& path) = 0;
  // The same as lock(), but kNotFound when the folder of `path` is missing.
  virtual Result<std::unique_ptr<FileLock>> lock_file(const std::string& path) = 0;

 private:
  Status write_new(const std::string& path, std::span<const Bytes> pieces, bool durable);
  Status check(const std::string& path, const PutOptions& options) const;
};

}  // namespace forebay::io
