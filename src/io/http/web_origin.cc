#include "io/http/web_origin.h"

#include <algorithm>

#include "base/limits.h"
#include "io/ascii.h"
#include "io/http/remote_file.h"
#include "io/http/url.h"

namespace forebay::io::http {

using base::Code;
using base::fail;

namespace {

// An example of shards in a folder.
std::string shards_in(std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  return fmt::format("{}/shard-{{000..010}}.tar", folder);
}

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
  Status check(const std::string& path, const Head& head) const override;
  Remedy remedy_for(const std::string&, const Basis&, const Head&,
                    std::string_view) const override {
    return Remedy::kNone;
  }
};

constexpr int kUnauthorized = 401;
constexpr int kForbidden = 403;
constexpr std::string_view kNoListing =
    "web servers do not list their folders; name a packed dataset (a folder with a file HEAD), or "
    "shards by a range";

std::string_view name_of(std::string_view url) {
  return url.substr(std::min(url.size(), url.rfind('/') + 1));
}

// Servers add the slash at the end of a folder's address by a redirect. Then they answer with a
// page that lists the folder, or with another page, or they refuse.
Status WebProtocol::check(const std::string& path, const Head& head) const {
  const bool is_refused = head.code == kUnauthorized || head.code == kForbidden;
  if (!is_success(head.code) && !is_refused) return {};
  if (head.url.ends_with('/')) {
    return fail(Code::kUnsupported, "it is a folder on a web server (answer {}), and {}: {}",
                head.code, kNoListing, shards_in(path));
  }
  if (is_refused) {
    return fail(Code::kIo,
                "the server answered {}: it gives this file only to some, or it has no such file; "
                "Forebay sends no name and no password to web servers: serve the data without, or "
                "use a store with keys (s3://)",
                head.code);
  }
  const bool is_page = lower(head.header("content-type")).starts_with("text/html");
  const bool is_elsewhere = name_of(head.url) != name_of(encode_illegal(path));
  if (!is_page || !is_elsewhere) return {};
  return fail(
      Code::kIo,
      "the server redirects to {}, which is a page for browsers (text/html), perhaps to log "
      "in; name an address that gives the file itself, without a login",
      printable(head.url));
}

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
  return fail(Code::kUnsupported, "{}: {}: {}", path, kNoListing, shards_in(path));
}

Result<FileInfo> WebOrigin::stat(const std::string& path) const {
  ASSIGN_OR_RETURN(const Identity identity, ask_identity(service_, path));
  return FileInfo{.type = FileType::kFile,
                  .size = identity.size,
                  .modified_ns = identity.modified_ns,
                  .allocated = identity.size};
}

}  // namespace forebay::io::http
