// The places where credentials are looked for, in AWS's order: options, environment, web identity,
// profile files, the container's service, the machine's metadata. For Google's store only options,
// environment and profile files are asked.
//
// A place that is not set up is skipped. A place that is set up must work: if it fails, the search
// ends with its error, because another place would give another identity.
#pragma once

#include <optional>
#include <stop_token>

#include "io/clock.h"
#include "io/s3/settings.h"

namespace forebay::io::s3 {

struct Credentials {
  std::string access_key_id = {};  // empty: requests are not signed
  Secret secret_access_key = {};
  Secret session_token = {};  // empty if the keys need none
  std::string from = {};      // the place that gave them, for messages

  bool anonymous() const { return access_key_id.empty(); }
  bool operator==(const Credentials&) const = default;
};

struct FoundCredentials {
  Credentials credentials = {};
  // How long they are valid from now, by the clock of the service that gave them; nothing: they do
  // not expire.
  std::optional<int64_t> lifetime_ns = {};
};

// The answer of one place: its credentials, or why it was skipped.
struct StepAnswer {
  std::optional<FoundCredentials> found = {};
  std::string why_not = {};
};

// Everything that a place may look at.
struct Search {
  const Settings& settings;
  const Surroundings& around;
  const Clock& clock;
  std::stop_token stop = {};
};

struct ChainStep {
  std::string_view name;
  Result<StepAnswer> (*ask)(const Search&);
  bool may_change;  // whether asking again can give other credentials
};

struct ChainResult {
  FoundCredentials found;
  ChainStep step;  // the place that gave them
};

// Asks one place after the other. Errors: kInvalid if no place is set up; the error of a place that
// is set up and fails. The message tells for each place why it gave no credentials, and holds no
// secret.
Result<ChainResult> find_credentials(const Search& search);

// These ask one place each; the others are in chain.cc. Errors: kInvalid for settings that are
// incomplete, malformed or not supported; kUnavailable and kTimedOut if a service does not answer
// as it should; kCancelled.
Result<StepAnswer> ask_web_identity(const Search& search);
Result<StepAnswer> ask_container(const Search& search);
Result<StepAnswer> ask_instance_metadata(const Search& search);

}  // namespace forebay::io::s3
