// One origin for all places: the scheme of each path says who has it. Programs make one where names
// are opened, and hand it on.
#pragma once

#include <map>

#include "base/mutex.h"
#include "io/file_system.h"

namespace forebay::io {

// The names and values of options for s3:// and gs:// (io/s3/settings.h).
using StorageOptions = std::vector<std::pair<std::string, std::string>>;

// Paths: plain ones and "file:///folder" are this machine's files; "http://host/file" and
// "https://…" are a web server's, "s3://bucket/key" and "gs://…" those of object stores. Any thread
// may call anything, also in a forked process.
class AnyOrigin final : public FileSystem {
 public:
  explicit AnyOrigin(StorageOptions options = {}) : options_(std::move(options)) {}

  // Errors, besides those of the origins: kUnsupported for a scheme that none of them has, and,
  // when a store is first asked for something, those of its options and credentials. Web servers
  // can only be read (kUnsupported).
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path,
                                             const OpenOptions& options = {}) const override;
  bool is_remote(const std::string& path) const override;
  size_t ranges_max(const std::string& path) const override;
  Result<std::vector<DirEntry>> list(const std::string& path) const override;
  Result<FileInfo> stat(const std::string& path) const override;
  std::string canonical(const std::string& path) const override;
  Status put_pieces(const std::string& path, std::span<const Bytes> pieces,
                    const PutOptions& options = {}) override;
  Status remove(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> append_to(const std::string& path) override;

 private:
  struct Found {
    const Origin* origin;
    FileSystem* writable;  // the same origin; null where it cannot be written
    std::string path;      // as that origin knows it
  };
  Result<Found> find(const std::string& path) const EXCLUDES(mutex_);
  Result<Found> find_writable(const std::string& path) const;
  struct Remote {
    std::unique_ptr<const Origin> origin;
    FileSystem* writable = nullptr;
  };
  static Result<Remote> make(const std::string& scheme, const StorageOptions& options);

  const StorageOptions options_;
  mutable base::Mutex mutex_;
  // By scheme, each made when the first path needs it.
  mutable std::map<std::string, Remote, std::less<>> remote_ GUARDED_BY(mutex_);
};

}  // namespace forebay::io
