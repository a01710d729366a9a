#include "io/http/web_origin.h"

#include "base/limits.h"
#include "io/http/remote_file.h"
#include "io/http/url.h"

namespace forebay::io::http {

using base::Code;
using base::fail;

namespace {

class WebProtocol final : public Protocol {
 public:
  Result<Request> request(std::string_view method, const std::string& path,
                          std::string_view query) const override {
    FOREBAY_CHECK(query.empty());
    return Request{.method = std::string(method), .url = encode_illegal(path)};
  }
  std::string host(const std::string& path) const override {
    const auto parts = split_url(path);
    return parts ? std::string(parts->host) : path;
  }
  size_t ranges_max() const override { return base::kHttpRangesMax; }
  // The bodies of web servers' errors are pages for browsers.
  std::string explain(std::string_view) const override { return {}; }
  bool is_error(std::string_view) const override { return false; }
  Remedy remedy_for(const std::string&, const Basis&, const Head&,
                    std::string_view) const override {
    return Remedy::kNone;
  }
};

}  // namespace

Status check_address(const std::string& url) {
  ASSIGN_OR_RETURN(const UrlParts parts, split_url(url));
  const size_t end = url.find_first_of("?#");
  if (parts.user.empty() && end == std::string::npos) return {};
  // A query may follow the host directly.
  const std::string_view host = parts.host.substr(0, parts.host.find_first_of("?#"));
  const std::string_view path = parts.path.substr(0, parts.path.find_first_of("?#"));
  const std::string shown =
      fmt::format("{}://{}{}", parts.scheme, host, host.size() < parts.host.size() ? "" : path);
  if (!parts.user.empty()) {
    return fail(Code::kInvalid,
                "{}: an address with a user and a password is refused, because addresses appear in "
                "messages and in saved states; use a server that needs neither, or a store with "
                "keys (s3://)",
                shown);
  }
  return fail(
      Code::kInvalid,
      "{}: an address with {} is refused, because addresses appear in messages and in saved "
      "states, and the text after the {} often is a signature; serve the data in a way that "
      "needs none, or use a store with keys (s3://); in a file's name write {}",
      shown, url[end] == '?' ? "a query (?)" : "a fragment (#)", url[end],
      url[end] == '?' ? "%3F" : "%23");
}

WebOrigin::WebOrigin(const ServiceOptions& options)
    : service_(std::make_unique<WebProtocol>(), options) {}

Result<std::unique_ptr<ReadableFile>> WebOrigin::open(const std::string& path,
                                                      const OpenOptions& options) const {
  return open_remote(service_, path, options);
}

Result<base::ByteVector> WebOrigin::read_whole(const std::string& path, uint64_t limit) const {
  return read_remote(service_, path, limit);
}

Result<std::vector<DirEntry>> WebOrigin::list(const std::string& path) const {
  return fail(Code::kUnsupported,
              "{}: a web server does not list its folders; name a packed dataset, or shards by a "
              "range: {}/shard-{{000..010}}.tar",
              path, path);
}

Result<FileInfo> WebOrigin::stat(const std::string& path) const {
  ASSIGN_OR_RETURN(const Identity identity, ask_identity(service_, path));
  return FileInfo{.type = FileType::kFile,
                  .size = identity.size,
                  .modified_ns = identity.modified_ns,
                  .allocated = identity.size};
}

}  // namespace forebay::io::http
