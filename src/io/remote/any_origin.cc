#include "io/remote/any_origin.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "io/ascii.h"
#include "io/file_system.h"
#include "io/http/url.h"
#include "io/http/web_origin.h"
#include "io/machine.h"
#include "io/remote/certificates.h"
#include "io/s3/options.h"
#include "io/s3/s3_origin.h"

namespace forebay::io {

using base::Code;
using base::fail;

namespace {

// "https" of "https://host/a"; empty if the path has no scheme.
std::string_view scheme_of(std::string_view path) {
  const size_t colon = path.find("://");
  if (colon == std::string_view::npos) return {};
  const std::string_view scheme = path.substr(0, colon);
  return is_made_of_letters_and("+-.", scheme) ? scheme : std::string_view();
}

// Refuses paths that no origin can have, before a message shows them: they may hold a password or a
// key, which the messages of this function leave out.
Status check_remote(std::string_view scheme, const std::string& path) {
  if (scheme == "http" || scheme == "https") return http::check_address(path);
  if (scheme == "s3" || scheme == "gs") return base::status_of(s3::split_path(path));
  return fail(Code::kUnsupported,
              "the scheme {}:// is not known; file, http, https, s3 and gs are possible", scheme);
}

// Applies the options for web servers: trusted certificates, timeouts and attempts.
Status set_web_options(const StorageOptions& options, http::ServiceOptions& service) {
  using s3::Option;
  constexpr std::array kPossible = {Option::kVerify, Option::kConnectTimeout, Option::kReadTimeout,
                                    Option::kMaxAttempts};
  for (const auto& [name, value] : options) {
    const auto option = s3::option_of(name);
    if (option && std::ranges::find(kPossible, *option) != kPossible.end()) continue;
    // The options may also be for a store that is written to; a web server is only read.
    if (option == Option::kEncryption || option == Option::kEncryptionKey) continue;
    return fail(Code::kInvalid,
                "storage options: a web server does not take {}; verify (a file of certificates to "
                "trust), connect_timeout, read_timeout and max_attempts are possible",
                base::to_utf8(name));
  }
  ASSIGN_OR_RETURN(const auto given, s3::GivenOptions::sort(options));
  const auto text = [&](Option option) -> http::GivenText {
    if (!given.has(option)) return {};
    return {std::string(given.value(option)), "the storage option " + given.name(option)};
  };
  const std::string verify = text(Option::kVerify).value;
  if (verify == "false" || verify == "true") {
    return fail(Code::kInvalid,
                "storage options: verify is the path of a file of certificates to trust; the "
                "server's certificate is always verified");
  }
  if (!verify.empty()) service.client.ca_file = verify;
  ASSIGN_OR_RETURN(const http::Patience patience,
                   http::parse_patience(text(Option::kConnectTimeout), text(Option::kReadTimeout),
                                        text(Option::kMaxAttempts)));
  patience.apply_to(service);
  return {};
}

}  // namespace

Result<AnyOrigin::Found> AnyOrigin::find(const std::string& path) const {
  const std::string scheme = lower(scheme_of(path));
  if (scheme.empty()) return Found{&posix_file_system(), &posix_file_system(), path};
  if (scheme == "file") {
    constexpr std::string_view kStart = "file://";
    std::string file = path.substr(kStart.size());
    if (file.starts_with("localhost/")) file.erase(0, file.find('/'));
    if (file.starts_with('/')) {
      return Found{&posix_file_system(), &posix_file_system(), std::move(file)};
    }
    ASSIGN_OR_RETURN(const http::UrlParts parts, http::split_url(path));
    return fail(Code::kInvalid,
                "file://{}{}: a file's address has an absolute path: file:///folder/file",
                parts.host, parts.path);
  }
  const std::string known_path = scheme + path.substr(scheme.size());
  RETURN_IF_ERROR(check_remote(scheme, known_path));
  const auto known = remote(scheme);
  if (!known) return tl::unexpected(known.error().at(path));
  return Found{(*known)->origin.get(), (*known)->writable, known_path};
}

AnyOrigin::~AnyOrigin() {
  for (const std::atomic<const Remote*>& remote : remote_) delete remote.load();
}

// Two threads may make an origin at the same time; then the first one that is ready stays.
Result<const AnyOrigin::Remote*> AnyOrigin::remote(std::string_view scheme) const {
  const auto found = std::ranges::find(kRemoteSchemes, scheme);
  FOREBAY_CHECK(found != kRemoteSchemes.end());
  auto& known = remote_[static_cast<size_t>(found - kRemoteSchemes.begin())];
  const Remote* there = known;
  if (there != nullptr) return there;
  ASSIGN_OR_RETURN(Remote made, make(scheme, options_));
  auto fresh = std::make_unique<const Remote>(std::move(made));
  if (known.compare_exchange_strong(there, fresh.get())) there = fresh.release();
  return there;
}

Result<AnyOrigin::Remote> AnyOrigin::make(std::string_view scheme, const StorageOptions& options) {
  http::ServiceOptions service;
  service.client.ca_file = trusted_certificates();
  // Unused connections stay open too, and other files need descriptors as well.
  const auto share = static_cast<uint32_t>(std::min<uint64_t>(open_files_max() / 4, UINT32_MAX));
  service.client.requests_max = std::clamp(share, 1u, service.client.requests_max);
  if (scheme == "http" || scheme == "https") {
    RETURN_IF_ERROR(set_web_options(options, service));
    return Remote{.origin = std::make_unique<http::WebOrigin>(service)};
  }
  const s3::Surroundings around = s3::surroundings_of_process();
  ASSIGN_OR_RETURN(s3::Settings settings, s3::settings_for(scheme, options, around));
  ASSIGN_OR_RETURN(auto origin, s3::S3Origin::make(std::move(settings), around, service));
  FileSystem* const writable = origin.get();
  return Remote{.origin = std::move(origin), .writable = writable};
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

Result<base::ByteVector> AnyOrigin::read_whole(const std::string& path, uint64_t limit) const {
  ASSIGN_OR_RETURN(const Found found, find(path));
  return found.origin->read_whole(found.path, limit);
}

bool AnyOrigin::is_remote(const std::string& path) const {
  const auto found = find(path);
  return found && found->origin->is_remote(found->path);
}

size_t AnyOrigin::ranges_max(const std::string& path) const {
  const auto found = find(path);
  return found ? found->origin->ranges_max(found->path) : 1;
}

Traffic AnyOrigin::traffic(const std::string& path) const {
  const auto found = find(path);
  return found ? found->origin->traffic(found->path) : Traffic();
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
