#include "io/http/signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>

#include "base/checksum.h"
#include "io/ascii.h"
#include "io/http/url.h"

namespace forebay::io::http {

namespace {

constexpr const char* kAlgorithm = "AWS4-HMAC-SHA256";
constexpr const char* kUnsignedBody = "UNSIGNED-PAYLOAD";

std::string_view name_of(std::string_view header) { return header.substr(0, header.find(':')); }

// "20130524T000000Z".
std::string date_of(int64_t wall_ns) {
  const auto seconds = static_cast<time_t>(wall_ns / 1'000'000'000);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts)};
}

// HMAC-SHA256.
Secret hmac(const Secret& key, std::string_view text) {
  std::string tag(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  FOREBAY_CHECK(::HMAC(EVP_sha256(), key.reveal().data(), static_cast<int>(key.size()),
                       reinterpret_cast<const uint8_t*>(text.data()), text.size(),
                       reinterpret_cast<uint8_t*>(tag.data()), &size) != nullptr);
  tag.resize(size);
  return Secret::take(tag);
}

// The host as libcurl names it in the header Host: without the usual port.
std::string host_of(const UrlParts& url) {
  const std::string_view usual = url.scheme == "https" ? ":443" : ":80";
  std::string_view host = url.host;
  if (host.ends_with(usual)) host.remove_suffix(usual.size());
  return std::string(host);
}

// The request in the form that is signed; `headers` by their names in lower case.
std::string canonical(const Request& request, const UrlParts& url,
                      const std::map<std::string, std::string>& headers, std::string* names) {
  const size_t query = std::min(url.path.find('?'), url.path.size());
  const std::string_view path = url.path.substr(0, query);
  std::string text =
      fmt::format("{}\n{}\n{}\n", request.method, path.empty() ? "/" : path,
                  query < url.path.size() ? url.path.substr(query + 1) : std::string_view());
  for (const auto& [name, value] : headers) {
    text += fmt::format("{}:{}\n", name, value);
    *names += (names->empty() ? "" : ";") + name;
  }
  return text + fmt::format("\n{}\n{}", *names, headers.at("x-amz-content-sha256"));
}

}  // namespace

bool needs_own_signature(const std::vector<std::string>& headers) {
  return std::ranges::any_of(headers, [&](const std::string& one) {
    return std::ranges::any_of(headers, [&](const std::string& other) {
      const std::string_view longer = name_of(other);
      return longer.size() > name_of(one).size() && longer.starts_with(name_of(one));
    });
  });
}

std::vector<Secret> signed_headers(const Request& request, int64_t wall_ns) {
  const Signing& signing = *request.signing;
  const UrlParts url = split_url(request.url).value();
  const std::string date = date_of(wall_ns);
  std::map<std::string, std::string> headers = {
      {"host", host_of(url)},
      {"x-amz-date", date},
      {"x-amz-content-sha256", request.body_sha256.empty() ? kUnsignedBody : request.body_sha256}};
  if (!signing.session_token.empty()) {
    headers.emplace("x-amz-security-token", signing.session_token);
  }
  for (const std::string& header : request.headers) {
    const std::string_view name = name_of(header);
    headers.emplace(lower(name), trimmed(std::string_view(header).substr(name.size() + 1)));
  }
  std::string names;
  std::string text = canonical(request, url, headers, &names);
  const std::string day = date.substr(0, date.find('T'));
  const std::string scope = fmt::format("{}/{}/s3/aws4_request", day, request.region);
  const std::string hash = base::to_hex(base::sha256(base::as_bytes(text)));
  Secret::wipe(text.data(), text.size());  // it may hold a session token
  const std::string to_sign = fmt::format("{}\n{}\n{}\n{}", kAlgorithm, date, scope, hash);
  Secret key("AWS4");
  key.append(signing.secret_key);
  for (const std::string_view part : {std::string_view(day), std::string_view(request.region),
                                      std::string_view("s3"), std::string_view("aws4_request")}) {
    key = hmac(key, part);
  }
  const Secret tag = hmac(key, to_sign);
  std::vector<Secret> lines;
  lines.emplace_back(
      fmt::format("Authorization: {} Credential={}/{}, SignedHeaders={}, Signature={}", kAlgorithm,
                  signing.access_key, scope, names, base::to_hex(base::as_bytes(tag.reveal()))));
  lines.emplace_back("x-amz-date: " + date);
  return lines;
}

}  // namespace forebay::io::http
