// What services that give out credentials answer: the fields, and the time at which they end.
#pragma once

#include "io/s3/chain.h"
#include "io/s3/small_request.h"

namespace forebay::io::s3 {

// Nanoseconds since 1970 for a time like 2026-11-24T18:15:00Z, with or without a fraction, which is
// left out; from 1970 to 2199. Nothing for everything else (RFC 3339, UTC only).
std::optional<int64_t> utc_ns(std::string_view text);

// What an answer says of one set of credentials; the end is empty where they do not end.
struct GivenOut {
  Secret access_key_id = {};
  Secret secret_access_key = {};
  Secret session_token = {};
  std::string end = {};
};

// Finds how long the credentials last: from the date of the answer, if it has one, as this
// machine's clock may be wrong. `from` names the service. Errors: kUnavailable for an incomplete
// answer, and for credentials that have ended already.
Result<StepAnswer> accept(const GivenOut& given, std::string_view from,
                          std::optional<int64_t> date_ns, const Clock& clock);

// Reads AccessKeyId, SecretAccessKey, Token and Expiration from the JSON of the container's service
// or of the machine's metadata. Errors: kUnavailable, like accept().
Result<StepAnswer> accept_json(const SmallAnswer& answer, std::string_view from,
                               const Clock& clock);

// Reads the XML of STS's AssumeRoleWithWebIdentity. Errors: kUnavailable, like accept(); kInvalid
// where the service refuses the token or the role.
Result<StepAnswer> accept_xml(const SmallAnswer& answer, const Clock& clock);

// Refuses keys that no header can hold: kInvalid.
Result<StepAnswer> checked(FoundCredentials found);

}  // namespace forebay::io::s3
