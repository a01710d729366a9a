#include "io/s3/chain.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/utf8.h"
#include "io/s3/given_out.h"
#include "io/s3/profile_files.h"

namespace forebay::io::s3 {

using base::Code;
using base::fail;

namespace {

Result<StepAnswer> ask_options(const Search& search) {
  const Settings& settings = search.settings;
  if (settings.anonymous) {
    return StepAnswer{.found = FoundCredentials{.credentials = {.from = "storage options"}}};
  }
  if (settings.access_key_id.empty()) return StepAnswer{.why_not = "key and secret are not given"};
  return checked({.credentials = {.access_key_id = settings.access_key_id,
                                  .secret_access_key = settings.secret_access_key,
                                  .session_token = settings.session_token,
                                  .from = "storage options"}});
}

Result<StepAnswer> ask_environment(const Search& search) {
  if (search.settings.profile_from == ProfileFrom::kOption) {
    return StepAnswer{.why_not = "not used, because the options name a profile"};
  }
  const std::string_view id = search.around.variable("AWS_ACCESS_KEY_ID");
  const std::string_view secret = search.around.variable("AWS_SECRET_ACCESS_KEY");
  if (id.empty() && secret.empty()) {
    return StepAnswer{.why_not = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set"};
  }
  if (id.empty() || secret.empty()) {
    return fail(Code::kInvalid,
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set together; {} is not set",
                id.empty() ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY");
  }
  return checked(
      {.credentials = {.access_key_id = std::string(id),
                       .secret_access_key = Secret(secret),
                       .session_token = Secret(search.around.variable("AWS_SESSION_TOKEN")),
                       .from = "the environment"}});
}

// The first property that needs a kind of profile that is not supported; empty if there is none.
std::string unsupported_in(const Profile& profile) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"role_arn", "source_profile", "credential_source", "sso_session", "sso_start_url",
       "credential_process", "login_session"});
  const auto found = std::find_if(kNames.begin(), kNames.end(), [&](std::string_view name) {
    return !profile.get(name).empty();
  });
  return found == kNames.end() ? "" : std::string(*found);
}

// The first property whose name looks like that of a key and is unknown, such as a mistyped one;
// empty if there is none.
std::string unknown_in(const Profile& profile) {
  constexpr std::array<std::string_view, 5> kKnown = {"aws_access_key_id", "aws_secret_access_key",
                                                      "aws_session_token", "aws_security_token",
                                                      "aws_account_id"};
  for (const auto& [name, value] : profile.properties) {
    if (name.starts_with("aws_") && std::ranges::find(kKnown, name) == kKnown.end()) return name;
  }
  return {};
}

Result<StepAnswer> ask_profile(const Search& search) {
  const std::string& name = search.settings.profile;
  ASSIGN_OR_RETURN(const Profile profile, read_profile(search.around, name));
  const std::string_view id = profile.get("aws_access_key_id");
  const std::string_view secret = profile.get("aws_secret_access_key");
  // Keys in a profile with a role only serve to ask for that role's credentials.
  const std::string unsupported = unsupported_in(profile);
  const bool has_keys = !id.empty() || !secret.empty();
  if (unsupported == "role_arn" || (!unsupported.empty() && !has_keys)) {
    return fail(Code::kInvalid,
                "{} has {}, which is not supported; let AWS's command line find the keys and set "
                "the variables that `aws configure export-credentials --format env --profile {}` "
                "prints",
                profile.where, unsupported, base::to_utf8(name));
  }
  if (!profile.found && search.settings.profile_from != ProfileFrom::kDefault) {
    return fail(Code::kNotFound, "there is no {}", profile.where);
  }
  if (!profile.found) return StepAnswer{.why_not = fmt::format("there is no {}", profile.where)};
  if (const std::string unknown = unknown_in(profile); !has_keys && !unknown.empty()) {
    return fail(Code::kInvalid,
                "{} has no aws_access_key_id, but {}, which is no property that AWS knows; correct "
                "its name",
                profile.where, unknown);
  }
  if (!has_keys) {
    return StepAnswer{.why_not = fmt::format("{} has no aws_access_key_id", profile.where)};
  }
  if (id.empty() || secret.empty()) {
    return fail(Code::kInvalid, "{} must have both aws_access_key_id and aws_secret_access_key",
                profile.where);
  }
  return checked({.credentials = {.access_key_id = std::string(id),
                                  .secret_access_key = Secret(secret),
                                  .session_token = Secret(profile.get("aws_session_token")),
                                  .from = profile.where}});
}

constexpr auto kAwsSteps = std::to_array<ChainStep>({
    {"storage options", &ask_options, false},
    {"environment", &ask_environment, false},
    {"web identity", &ask_web_identity, true},
    {"profile files", &ask_profile, true},
    {"container service", &ask_container, true},
    {"instance metadata", &ask_instance_metadata, true},
});
constexpr auto kGoogleSteps = std::to_array<ChainStep>({
    {"storage options", &ask_options, false},
    {"environment", &ask_environment, false},
    {"profile files", &ask_profile, true},
});

}  // namespace

Result<ChainResult> find_credentials(const Search& search) {
  const auto steps = search.settings.service == Service::kS3
                         ? std::span<const ChainStep>(kAwsSteps)
                         : std::span<const ChainStep>(kGoogleSteps);
  std::string tried;
  for (const ChainStep& step : steps) {
    Result<StepAnswer> answer = step.ask(search);
    if (answer && answer->found) return ChainResult{std::move(*answer->found), step};
    const std::string& why = answer ? answer->why_not : answer.error().message();
    if (!answer) {
      return fail(answer.error().code(), "cannot get credentials from the {}: {}{}", step.name, why,
                  tried.empty() ? "" : "; places tried before: " + tried);
    }
    tried += fmt::format("{}{}: {}", tried.empty() ? "" : "; ", step.name, why);
  }
  return fail(Code::kInvalid,
              "there are no credentials ({}); give the storage options key and secret, or anon for "
              "a bucket that is public",
              tried);
}

}  // namespace forebay::io::s3
