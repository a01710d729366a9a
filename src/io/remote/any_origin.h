// One origin for all kinds of paths: the scheme of each path selects the origin that has it. A
// program makes one and passes it on.
#pragma once

#include <array>
#include <atomic>

#include "io/file_system.h"

namespace forebay::io {

// The names and values of options (io/s3/options.h). Web servers take those about certificates,
// timeouts and attempts.
using StorageOptions = std::vector<std::pair<std::string, std::string>>;

// Paths: plain ones and "file:///folder" are this machine's files; "http://host/file" and
// "https://…" are a web server's, "s3://bucket/key" and "gs://…" those of object stores. Schemes
// may be in upper case, too. Any thread may call anything, also in a forked process.
class AnyOrigin final : public FileSystem {
 public:
  explicit AnyOrigin(StorageOptions options = {}) : options_(std::move(options)) {}
  ~AnyOrigin() override;
  AnyOrigin(const AnyOrigin&) = delete;
  AnyOrigin& operator=(const AnyOrigin&) = delete;

  // Errors, besides those of the origins: kInvalid for a path with a user or a query, which the
  // message leaves out; kUnsupported for an unknown scheme, and for writing to a web server; and,
  // at the first use of a store, errors in its options and credentials.
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path,
                                             const OpenOptions& options = {}) const override;
  Result<base::ByteVector> read_whole(const std::string& path, uint64_t limit) const override;
  bool is_remote(const std::string& path) const override;
  size_t ranges_max(const std::string& path) const override;
  Traffic traffic(const std::string& path) const override;
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
    FileSystem* writable;  // the same origin; null if it cannot be written
    std::string path;      // as that origin knows it
  };
  Result<Found> find(const std::string& path) const;
  Result<Found> find_writable(const std::string& path) const;
  struct Remote {
    std::unique_ptr<const Origin> origin;
    FileSystem* writable = nullptr;
  };
  Result<const Remote*> remote(std::string_view scheme) const;
  static Result<Remote> make(std::string_view scheme, const StorageOptions& options);

  static constexpr std::array<std::string_view, 4> kRemoteSchemes = {"http", "https", "s3", "gs"};

  const StorageOptions options_;
  // One for each scheme, made when the first path needs it. There is no mutex, because finding
  // credentials takes time, and a process that was forked meanwhile would find the mutex locked
  // forever.
  mutable std::array<std::atomic<const Remote*>, kRemoteSchemes.size()> remote_{};
};

}  // namespace forebay::io
