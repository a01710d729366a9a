// Files on an ordinary web server, which cannot be written, and whose folders cannot be listed.
#pragma once

#include "io/http/service.h"

namespace forebay::io::http {

// Refuses addresses with parts that must not appear in messages, saved states and indexes: a user,
// a query or a fragment (kInvalid). The message leaves these parts out.
Status check_address(const std::string& url);

// Paths are URLs that check_address() accepts, like "https://host/folder/file". Any thread may call
// anything.
class WebOrigin final : public Origin {
 public:
  explicit WebOrigin(const ServiceOptions& options);

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path,
                                             const OpenOptions& options = {}) const override;
  Result<base::ByteVector> read_whole(const std::string& path, uint64_t limit) const override;
  bool is_remote(const std::string&) const override { return true; }
  size_t ranges_max(const std::string&) const override { return service_.ranges_max(); }
  Traffic traffic(const std::string&) const override { return service_.traffic(); }
  // Always kUnsupported: there is no common way to ask a web server for a list.
  Result<std::vector<DirEntry>> list(const std::string& path) const override;
  Result<FileInfo> stat(const std::string& path) const override;
  std::string canonical(const std::string& path) const override { return path; }

  const Service& service() const { return service_; }

 private:
  const Service service_;
};

}  // namespace forebay::io::http
