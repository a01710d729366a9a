// Objects in a store with S3's interface. A folder is a common beginning of keys that ends with
// "/".
#pragma once

#include "io/s3/answers.h"
#include "io/s3/s3_protocol.h"
#include "io/s3/upload.h"

namespace forebay::io::s3 {

// Paths are "s3://bucket/key", or begin with the scheme that the origin was made for. Any thread
// may call anything.
class S3Origin final : public FileSystem {
 public:
  // Errors: those of fetching the first credentials.
  static Result<std::unique_ptr<S3Origin>> make(Settings settings, Surroundings around,
                                                http::ServiceOptions options);

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path,
                                             const OpenOptions& options = {}) const override;
  Result<base::ByteVector> read_whole(const std::string& path, uint64_t limit) const override;
  bool is_remote(const std::string&) const override { return true; }
  size_t ranges_max(const std::string&) const override { return service_.ranges_max(); }
  Traffic traffic(const std::string&) const override { return service_.traffic(); }
  Result<std::vector<DirEntry>> list(const std::string& path) const override;
  Result<FileInfo> stat(const std::string& path) const override;
  std::string canonical(const std::string& path) const override;

  Status put_pieces(const std::string& path, std::span<const Bytes> pieces,
                    const PutOptions& options = {}) override {
    return uploader_.put(path, pieces, options);
  }
  Status remove(const std::string& path) override;
  // Returns a null pointer, because there are no locks.
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;

 private:
  S3Origin(std::unique_ptr<const http::Protocol> protocol, const http::ServiceOptions& options,
           std::vector<std::string> headers_of_new_objects)
      : service_(std::move(protocol), options),
        uploader_(service_, std::move(headers_of_new_objects)) {}
  Result<ListPage> list_page(const ObjectName& folder, size_t names_max,
                             const std::string& from) const;
  static Result<ObjectName> folder_name(const std::string& path);

  const http::Service service_;
  Uploader uploader_;
};

}  // namespace forebay::io::s3
