// A file that is read by HTTP. Its reads of ranges need no thread each, are retried if that can
// help, and are compared with the file's known identity.
#pragma once

#include "io/http/service.h"

namespace forebay::io::http {

// The service must outlive the file and its reads.
class RemoteFile final : public ReadableFile {
 public:
  // Sends no request: `identity` is the file's known identity.
  RemoteFile(const Service& service, std::string path, Identity identity);

  const std::string& path() const override { return path_; }
  const Identity& identity() const override { return identity_; }
  Status read(uint64_t offset, MutableBytes out, const ReadOptions& options) const override;
  void start(std::vector<Range> ranges, const ReadOptions& options,
             std::function<void(Status)> done) const override;

 private:
  const Service& service_;
  const std::string path_;
  const Identity identity_;
};

// Asks the server for the size, Last-Modified and ETag of the file at `path`. Errors: those of
// Service::ask(), kUnsupported if the server does not say the size.
Result<Identity> ask_identity(const Service& service, const std::string& path);

// Opens the file at `path`, without a request if its identity is known. Errors: those of
// ask_identity().
Result<std::unique_ptr<ReadableFile>> open_remote(const Service& service, const std::string& path,
                                                  const OpenOptions& options);

// Implements Origin::read_whole(), with one request for a small file.
Result<base::ByteVector> read_remote(const Service& service, const std::string& path,
                                     uint64_t limit);

}  // namespace forebay::io::http
