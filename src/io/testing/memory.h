// A file system in memory for tests. It remembers what was synced, because only that is left after
// power_loss(). Reading and writing behave as in posix.cc.
#pragma once

#include <map>

#include "base/mutex.h"
#include "io/disk.h"

namespace forebay::io {

class MemoryFileSystem final : public DiskFileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path,
                                             const OpenOptions& options = {}) const override;
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> append_to(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status make_dir(const std::string& path) override;
  Status sync_dir(const std::string& path) override;
  Result<std::vector<DirEntry>> list(const std::string& path) const override;
  Result<FileInfo> stat(const std::string& path) const override;
  std::string canonical(const std::string& path) const override { return path; }
  Result<std::unique_ptr<FileLock>> lock_file(const std::string& path) override;

  // Simulates a power loss on a disk that keeps only what was synced: the names at each folder's
  // last sync, the bytes at each file's last sync, and at most `torn_bytes` of the bytes after
  // those. Folders stay, and locks are gone.
  void power_loss(uint64_t torn_bytes = 0);

  // A file's bytes, which a test may damage.
  base::ByteVector& content(const std::string& path);
  // Sets the modification time of a file or folder, which is 0 by default.
  void set_modified(const std::string& path, int64_t modified_ns);

 private:
  struct File;
  struct State;
  class Reader;
  class Writer;
  class Lock;
  std::shared_ptr<State> state_;
};

}  // namespace forebay::io
