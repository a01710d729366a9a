// Parses the answers of services that give out credentials: the keys, and when they expire.
#pragma once

#include "io/s3/chain.h"
#include "io/s3/small_request.h"

namespace forebay::io::s3 {

// Parses a time like 2026-11-24T18:15:00Z to nanoseconds since 1970 (RFC 3339, UTC only, from 1970
// to 2199). A fraction of a second is ignored. Nothing for any other text.
std::optional<int64_t> utc_ns(std::string_view text);

// The credentials in an answer. `end` is empty if they do not expire.
struct GivenOut {
  Secret access_key_id = {};
  Secret secret_access_key = {};
  Secret session_token = {};
  std::string end = {};
};

// Finds how long the credentials are valid, counted from the answer's date if it has one, because
// this machine's clock may be wrong. `from` names the service. Errors: kUnavailable for an
// incomplete answer, and for credentials that have expired already.
Result<StepAnswer> accept(const GivenOut& given, std::string_view from,
                          std::optional<int64_t> date_ns, const Clock& clock);

// Reads AccessKeyId, SecretAccessKey, Token and Expiration from the JSON of the container's service
// or of the machine's metadata. Errors: those of accept().
Result<StepAnswer> accept_json(const SmallAnswer& answer, std::string_view from,
                               const Clock& clock);

// Reads the XML of STS's AssumeRoleWithWebIdentity. Errors: those of accept(); kInvalid if the
// service refuses the token or the role.
Result<StepAnswer> accept_xml(const SmallAnswer& answer, const Clock& clock);

// Returns kInvalid for keys that a header cannot hold.
Result<StepAnswer> checked(FoundCredentials found);

}  // namespace forebay::io::s3
