// A file behind HTTP: reads of ranges that are in flight without a thread each, tried again where
// that can help, and compared with what the file is known to be.
#pragma once

#include "io/http/service.h"

namespace forebay::io::http {

// The service outlives the file and its reads.
class RemoteFile final : public ReadableFile {
 public:
  // Asks nothing: `identity` is what the file is known to be.
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

// What the server says of the file at `path`: size, Last-Modified, ETag. Errors: those of
// Service::ask(), kUnsupported where the server does not say the size.
Result<Identity> ask_identity(const Service& service, const std::string& path);

// Opens the file at `path`: what it is known to be is not asked for. Errors: like ask_identity().
Result<std::unique_ptr<ReadableFile>> open_remote(const Service& service, const std::string& path,
                                                  const OpenOptions& options);

// Origin::read_whole(): one request for a file that is small.
Result<base::ByteVector> read_remote(const Service& service, const std::string& path,
                                     uint64_t limit);

}  // namespace forebay::io::http
