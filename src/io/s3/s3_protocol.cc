#include "io/s3/s3_protocol.h"

#include <algorithm>
#include <array>

#include "base/limits.h"
#include "io/ascii.h"
#include "io/http/url.h"

namespace forebay::io::s3 {

using base::Code;
using base::fail;
using base::MutexLock;

namespace {

constexpr std::string_view kFirstRegion = "us-east-1";
constexpr int kBadRequest = 400;

// Errors that new credentials may help against.
bool is_about_credentials(std::string_view code) {
  constexpr std::array<std::string_view, 5> kCodes = {"ExpiredToken", "TokenRefreshRequired",
                                                      "InvalidToken", "InvalidAccessKeyId",
                                                      "ExpiredTokenException"};
  return std::ranges::find(kCodes, code) != kCodes.end();
}

// Errors that S3 sends with the status 400 although the same request may succeed the next time: the
// body came late, not whole, or damaged.
bool is_transient(std::string_view code) {
  constexpr std::array<std::string_view, 4> kCodes = {"RequestTimeout", "IncompleteBody",
                                                      "BadDigest", "XAmzContentSHA256Mismatch"};
  return std::ranges::find(kCodes, code) != kCodes.end();
}

}  // namespace

Result<ObjectName> split_path(const std::string& path) {
  const size_t begin = path.find("://") + 3;
  const size_t slash = std::min(path.find('/', begin), path.size());
  if (slash == begin) return fail(Code::kInvalid, "{}: the address names no bucket", path);
  ObjectName name{.bucket = path.substr(begin, slash - begin)};
  if (!is_made_of_letters_and(".-_", name.bucket)) {
    return fail(Code::kInvalid,
                "{}…: a bucket's name comes first, and has only letters, digits, \".\", \"-\" and "
                "\"_\"; keys do not belong in an address, because addresses appear in messages and "
                "in saved states: put them into the environment, a profile or storage options",
                path.substr(0, begin));
  }
  if (slash < path.size()) name.key = path.substr(slash + 1);
  if (name.key.size() > base::kSourcePathBytesMax) {
    return fail(Code::kTooBig, "{}{}: a key of {} bytes; the limit is {}", path.substr(0, begin),
                name.bucket, name.key.size(), base::kSourcePathBytesMax);
  }
  return name;
}

Result<std::unique_ptr<const S3Protocol>> S3Protocol::make(Settings settings, Surroundings around) {
  std::unique_ptr<const S3Protocol> protocol(
      new S3Protocol(std::move(settings), std::move(around)));
  if (!protocol->settings_.anonymous) RETURN_IF_ERROR(protocol->source());
  return protocol;
}

Result<CredentialSource*> S3Protocol::source() const {
  if (CredentialSource* const own = source_.find()) return own;
  ASSIGN_OR_RETURN(auto credentials, CredentialSource::open(settings_, around_));
  return &source_.keep(std::move(credentials));
}

S3Protocol::Regions& S3Protocol::regions() const {
  Regions* const own = regions_.find();
  return own != nullptr ? *own : regions_.keep(std::make_unique<Regions>());
}

std::string S3Protocol::region_of(const std::string& bucket) const {
  Regions& regions = this->regions();
  MutexLock lock(regions.mutex);
  const auto learned = regions.of_bucket.find(bucket);
  if (learned != regions.of_bucket.end()) return learned->second;
  return settings_.region.empty() ? std::string(kFirstRegion) : settings_.region;
}

// The bucket's URL, without the slash before a key.
std::string S3Protocol::address(const std::string& bucket, const std::string& region) const {
  const bool is_aws = settings_.endpoint_url.empty();
  const std::string endpoint = is_aws ? aws_address("s3", region) : settings_.endpoint_url;
  // The certificate of AWS's hosts does not cover a bucket's name with dots.
  const bool is_virtual =
      settings_.addressing == Addressing::kVirtual ||
      (settings_.addressing == Addressing::kAuto && is_aws && bucket.find('.') == bucket.npos);
  if (!is_virtual) return fmt::format("{}/{}", endpoint, http::encode_path(bucket));
  const size_t host = endpoint.find("://") + 3;
  return fmt::format("{}{}.{}", endpoint.substr(0, host), bucket, endpoint.substr(host));
}

Result<http::Request> S3Protocol::request(std::string_view method, const std::string& path,
                                          std::string_view query) const {
  ASSIGN_OR_RETURN(const ObjectName name, split_path(path));
  http::Request request{.method = std::string(method), .region = region_of(name.bucket)};
  request.url =
      fmt::format("{}/{}", address(name.bucket, request.region), http::encode_path(name.key));
  if (!query.empty()) request.url += fmt::format("?{}", query);
  if (settings_.anonymous) return request;
  if (settings_.requester_pays) request.headers.emplace_back("x-amz-request-payer: requester");
  auto signing = this->signing();
  if (!signing) return tl::unexpected(signing.error().at(fmt::format("{} ({})", path, host(path))));
  request.signing = std::move(*signing);
  return request;
}

// Nothing if the credentials say that requests are not signed.
Result<std::optional<http::Signing>> S3Protocol::signing() const {
  ASSIGN_OR_RETURN(const CredentialSource* source, source());
  const uint64_t fetches = source->fetches();
  ASSIGN_OR_RETURN(auto keys, source->current());
  if (keys->anonymous()) return std::optional<http::Signing>();
  return http::Signing{.access_key = keys->access_key_id,
                       .secret_key = keys->secret_access_key.reveal(),
                       .session_token = keys->session_token.reveal(),
                       .owner = keys,
                       .fetches = fetches};
}

std::string S3Protocol::host(const std::string& path) const {
  const auto name = split_path(path);
  if (!name) return {};
  const std::string url = address(name->bucket, region_of(name->bucket));
  const auto parts = http::split_url(url);
  return parts ? std::string(parts->host) : url;
}

std::string S3Protocol::explain(std::string_view body) const {
  if (body.empty()) return {};
  const ErrorAnswer error = parse_error(body);
  std::string text = error.code;
  if (!error.message.empty()) text += ": " + error.message;
  if (!error.endpoint.empty()) text += " Endpoint: " + error.endpoint;
  return http::printable(text);
}

bool S3Protocol::is_error(std::string_view body) const { return !parse_error(body).code.empty(); }

bool S3Protocol::learns_region(const std::string& path, const http::Basis& basis,
                               const http::Head& head, const ErrorAnswer& error) const {
  const auto name = split_path(path);
  std::string named(head.header("x-amz-bucket-region"));
  if (!is_region(named)) named = error.region;
  if (!name || head.code < 300 || head.code >= 500 || named.empty() || named == basis.region) {
    return false;
  }
  Regions& regions = this->regions();
  MutexLock lock(regions.mutex);
  regions.of_bucket[name->bucket] = named;
  return true;
}

http::Remedy S3Protocol::remedy_for(const std::string& path, const http::Basis& basis,
                                    const http::Head& head, std::string_view body) const {
  const ErrorAnswer error = parse_error(body);
  if (learns_region(path, basis, head, error)) return http::Remedy::kAnother;
  if (head.code == kBadRequest && is_transient(error.code)) return http::Remedy::kAnother;
  // S3 does not say what is wrong with a HEAD: for expired keys it answers 400 without a body.
  const bool says_nothing = head.code == kBadRequest && body.empty();
  if (!says_nothing && !is_about_credentials(error.code)) return http::Remedy::kNone;
  CredentialSource* const source = basis.keys == nullptr ? nullptr : source_.find();
  const auto used = std::static_pointer_cast<const Credentials>(basis.keys);
  if (source == nullptr || !source->refused(used)) return http::Remedy::kNone;
  const auto now = source->current();
  if (!now || *now != used) return http::Remedy::kNewKeys;
  // If the same keys were fetched again, the next try counts like others.
  return source->fetches() == basis.fetches ? http::Remedy::kKeysPending : http::Remedy::kAnother;
}

}  // namespace forebay::io::s3
