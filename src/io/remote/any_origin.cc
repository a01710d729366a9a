#include "io/remote/any_origin.h"

#include "io/file_system.h"
#include "io/http/web_origin.h"
#include "io/remote/certificates.h"
#include "io/s3/s3_origin.h"

namespace forebay::io {

using base::Code;
using base::fail;

namespace {

// "https" of "https://host/a"; empty where the path has no scheme.
std::string_view scheme_of(std::string_view path) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789+-.";
  const size_t colon = path.find("://");
  if (colon == std::string_view::npos || colon == 0) return {};
  const std::string_view scheme = path.substr(0, colon);
  return scheme.find_first_not_of(kLetters) == std::string_view::npos ? scheme : std::string_view();
}

// A web server needs no options but the file of certificates to trust.
Result<std::string> certificates_of_web(const StorageOptions& options) {
  std::string file;
  for (const auto& [name, value] : options) {
    if (name != "verify") {
      return fail(Code::kInvalid,
                  "storage options: {} means nothing to a web server; verify, a file of "
                  "certificates to trust, is possible",
                  name);
    }
    file = value;
  }
  if (file == "false" || file == "true") {
    return fail(Code::kInvalid,
                "storage options: verify is the path of a file of certificates to trust; the "
                "server's certificate is always verified");
  }
  return file;
}

}  // namespace

Result<AnyOrigin::Found> AnyOrigin::find(const std::string& path) const {
  const std::string_view scheme = scheme_of(path);
  if (scheme.empty()) return Found{&posix_file_system(), &posix_file_system(), path};
  if (scheme == "file") {
    constexpr std::string_view kStart = "file://";
    std::string file = path.substr(kStart.size());
    if (file.starts_with("localhost/")) file.erase(0, file.find('/'));
    if (file.starts_with('/')) {
      return Found{&posix_file_system(), &posix_file_system(), std::move(file)};
    }
    return fail(Code::kInvalid, "{}: a file's address has an absolute path: file:///folder/file",
                path);
  }
  base::MutexLock lock(mutex_);
  auto known = remote_.find(scheme);
  if (known == remote_.end()) {
    auto made = make(std::string(scheme), options_);
    if (!made) return tl::unexpected(made.error().at(path));
    known = remote_.emplace(scheme, std::move(*made)).first;
  }
  return Found{known->second.origin.get(), known->second.writable, path};
}

Result<AnyOrigin::Remote> AnyOrigin::make(const std::string& scheme,
                                          const StorageOptions& options) {
  http::ServiceOptions service;
  service.client.ca_file = trusted_certificates();
  if (scheme == "http" || scheme == "https") {
    ASSIGN_OR_RETURN(const std::string given, certificates_of_web(options));
    if (!given.empty()) service.client.ca_file = given;
    return Remote{.origin = std::make_unique<http::WebOrigin>(service)};
  }
  if (scheme == "s3" || scheme == "gs") {
    const s3::Surroundings around = s3::surroundings_of_process();
    ASSIGN_OR_RETURN(s3::Settings settings, s3::settings_for(scheme, options, around));
    ASSIGN_OR_RETURN(auto origin, s3::S3Origin::make(std::move(settings), around, service));
    FileSystem* const writable = origin.get();
    return Remote{.origin = std::move(origin), .writable = writable};
  }
  return fail(Code::kUnsupported,
              "there is nothing for {}://; file, http, https, s3 and gs are possible", scheme);
}

Result<AnyOrigin::Found> AnyOrigin::find_writable(const std::string& path) const {
  ASSIGN_OR_RETURN(Found found, find(path));
  if (found.writable != nullptr) return found;
  return fail(Code::kUnsupported,
              "{}: a web server can only be read; name a local folder or a store (s3://)", path);
}

Result<std::unique_ptr<ReadableFile>> AnyOrigin::open(const std::string& path,
                                                      const OpenOptions& options) const {
  ASSIGN_OR_RETURN(const Found found, find(path));
  return found.origin->open(found.path, options);
}

bool AnyOrigin::is_remote(const std::string& path) const {
  const auto found = find(path);
  return found && found->origin->is_remote(found->path);
}

size_t AnyOrigin::ranges_max(const std::string& path) const {
  const auto found = find(path);
  return found ? found->origin->ranges_max(found->path) : 1;
}

Result<std::vector<DirEntry>> AnyOrigin::list(const std::string& path) const {
  ASSIGN_OR_RETURN(const Found found, find(path));
  return found.origin->list(found.path);
}

Result<FileInfo> AnyOrigin::stat(const std::string& path) const {
  ASSIGN_OR_RETURN(const Found found, find(path));
  return found.origin->stat(found.path);
}

std::string AnyOrigin::canonical(const std::string& path) const {
  const auto found = find(path);
  return found ? found->origin->canonical(found->path) : path;
}

Status AnyOrigin::put_pieces(const std::string& path, std::span<const Bytes> pieces,
                             const PutOptions& options) {
  ASSIGN_OR_RETURN(const Found found, find_writable(path));
  return found.writable->put_pieces(found.path, pieces, options);
}

Status AnyOrigin::remove(const std::string& path) {
  ASSIGN_OR_RETURN(const Found found, find_writable(path));
  return found.writable->remove(found.path);
}

Result<std::unique_ptr<FileLock>> AnyOrigin::lock(const std::string& path) {
  ASSIGN_OR_RETURN(const Found found, find_writable(path));
  return found.writable->lock(found.path);
}

Result<std::unique_ptr<WritableFile>> AnyOrigin::append_to(const std::string& path) {
  ASSIGN_OR_RETURN(const Found found, find_writable(path));
  return found.writable->append_to(found.path);
}

}  // namespace forebay::io
