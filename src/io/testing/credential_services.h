// Replies of the services that give out credentials, as in the SDKs' documentation. The services'
// own clock shows kServiceNow.
#pragma once

#include "io/testing/http_listener.h"

namespace forebay::io::s3 {

inline constexpr std::string_view kServiceDate = "Date: Tue, 24 Nov 2026 18:00:00 GMT\r\n";
inline constexpr int64_t kServiceNowNs = 1'795'543'200'000'000'000;  // the same moment
inline constexpr std::string_view kOneHourLater = "2026-11-24T19:00:00Z";

// The answer of the container's service and of the instance metadata.
inline Reply json_keys(std::string_view id, std::string_view end = kOneHourLater) {
  return {.body = fmt::format(R"({{"Code":"Success","AccessKeyId":"{}","SecretAccessKey":"hush-s",)"
                              R"("Token":"hush-t","Expiration":"{}"}})",
                              id, end),
          .headers = std::string(kServiceDate)};
}

// The answer of STS to AssumeRoleWithWebIdentity.
inline Reply xml_keys(std::string_view id, std::string_view end = kOneHourLater) {
  return {
      .body = fmt::format(
          "<?xml version=\"1.0\"?><AssumeRoleWithWebIdentityResponse "
          "xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleWithWebIdentityResult>"
          "<Audience>sts.amazonaws.com</Audience><Credentials><SessionToken>hush-t</SessionToken>"
          "<SecretAccessKey>hush-s</SecretAccessKey><Expiration>{}</Expiration>"
          "<AccessKeyId>{}</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult>"
          "</AssumeRoleWithWebIdentityResponse>",
          end, id),
      .headers = std::string(kServiceDate)};
}

// An answer of the instance metadata to each of the three questions.
inline Reply metadata_reply(const HeardRequest& request, Reply keys) {
  if (request.method == "PUT" && request.target == "/latest/api/token") {
    return request.headers.contains("x-aws-ec2-metadata-token-ttl-seconds")
               ? Reply{.body = "hush-session"}
               : Reply{.status = 400};
  }
  const auto token = request.headers.find("x-aws-ec2-metadata-token");
  if (token == request.headers.end() || token->second != "hush-session") return {.status = 401};
  const std::string roles = "/latest/meta-data/iam/security-credentials/";
  if (request.target == roles) return {.body = "my-role\n"};
  return request.target == roles + "my-role" ? std::move(keys) : Reply{.status = 404};
}

}  // namespace forebay::io::s3
