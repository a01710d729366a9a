// A file system for tests that fails on purpose: its n-th write or read operation returns a chosen
// error, once or from then on. Each step of a put() is an operation.
#pragma once

#include <atomic>

#include "io/disk.h"

namespace forebay::io {

class FaultyFileSystem final : public DiskFileSystem {
 public:
  struct Fault {
    enum class On : uint8_t { kWrite, kRead } on = On::kWrite;
    // The number of the operation that fails, counted from 0; -1: none.
    int64_t at = -1;
    bool for_ever = true;
    base::Code code = base::Code::kNoSpace;
    // Only operations on paths with this text count. Where several threads write, their operations
    // come in any order, so `at` alone is no certain place.
    std::string in = {};
  };

  FaultyFileSystem(DiskFileSystem& below, Fault fault) : below_(below), fault_(fault) {}

  // Operations of the fault's kind so far, including those that failed.
  int64_t operations() const { return operations_; }

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
  std::string canonical(const std::string& path) const override { return below_.canonical(path); }
  Result<std::unique_ptr<FileLock>> lock_file(const std::string& path) override;

 private:
  class Reader;
  class Writer;
  Status step(Fault::On on, std::string_view what, const std::string& path) const;

  DiskFileSystem& below_;
  const Fault fault_;
  mutable std::atomic<int64_t> operations_ = 0;
};

}  // namespace forebay::io
