#include "io/s3/options.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "io/ascii.h"

namespace forebay::io::s3 {

using base::Code;
using base::fail;

namespace {

struct KnownName {
  std::string_view name;
  Option option;
};

// In the order in which a message lists them.
constexpr auto kKnownNames = std::to_array<KnownName>({
    {"key", Option::kAccessKey},
    {"access_key_id", Option::kAccessKey},
    {"aws_access_key_id", Option::kAccessKey},
    {"secret", Option::kSecretKey},
    {"secret_access_key", Option::kSecretKey},
    {"aws_secret_access_key", Option::kSecretKey},
    {"token", Option::kSessionToken},
    {"session_token", Option::kSessionToken},
    {"aws_session_token", Option::kSessionToken},
    {"anon", Option::kAnonymous},
    {"skip_signature", Option::kAnonymous},
    {"aws_skip_signature", Option::kAnonymous},
    {"profile", Option::kProfile},
    {"profile_name", Option::kProfile},
    {"endpoint_url", Option::kEndpoint},
    {"aws_endpoint_url", Option::kEndpoint},
    {"client_kwargs.endpoint_url", Option::kEndpoint},
    {"region", Option::kRegion},
    {"region_name", Option::kRegion},
    {"aws_region", Option::kRegion},
    {"client_kwargs.region_name", Option::kRegion},
    {"addressing_style", Option::kAddressing},
    {"config_kwargs.s3.addressing_style", Option::kAddressing},
    {"verify", Option::kVerify},
    {"client_kwargs.verify", Option::kVerify},
    {"connect_timeout", Option::kConnectTimeout},
    {"config_kwargs.connect_timeout", Option::kConnectTimeout},
    {"read_timeout", Option::kReadTimeout},
    {"config_kwargs.read_timeout", Option::kReadTimeout},
    {"max_attempts", Option::kMaxAttempts},
    {"config_kwargs.retries.total_max_attempts", Option::kMaxAttempts},
    {"requester_pays", Option::kRequestPayer},
    {"request_payer", Option::kRequestPayer},
    {"aws_request_payer", Option::kRequestPayer},
    {"s3_additional_kwargs.requestpayer", Option::kRequestPayer},
    {"sse", Option::kEncryption},
    {"server_side_encryption", Option::kEncryption},
    {"aws_server_side_encryption", Option::kEncryption},
    {"s3_additional_kwargs.serversideencryption", Option::kEncryption},
    {"sse_kms_key_id", Option::kEncryptionKey},
    {"aws_sse_kms_key_id", Option::kEncryptionKey},
    {"s3_additional_kwargs.ssekmskeyid", Option::kEncryptionKey},
});

std::string all_names() {
  std::string names;
  for (const KnownName& known : kKnownNames) {
    names += names.empty() ? "" : ", ";
    names += known.name;
  }
  return names;
}

}  // namespace

std::optional<Option> option_of(std::string_view name) {
  const std::string wanted = lower(name);
  const auto known = std::ranges::find(kKnownNames, wanted, &KnownName::name);
  if (known == kKnownNames.end()) return std::nullopt;
  return known->option;
}

Result<std::pair<std::string, std::string>> parse_argument(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    return fail(Code::kInvalid, "{} is not NAME=VALUE", base::to_utf8(text));
  }
  const Options options = {{text.substr(0, equals), text.substr(equals + 1)}};
  const auto& [name, value] = options.front();
  ASSIGN_OR_RETURN(const GivenOptions given, GivenOptions::sort(options));
  if (given.has(Option::kAccessKey) || given.has(Option::kSecretKey) ||
      given.has(Option::kSessionToken)) {
    return fail(Code::kInvalid,
                "give no {} on the command line, where every user of this machine can see it; put "
                "it into the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, "
                "AWS_SESSION_TOKEN) or into a profile, and name the profile with profile=NAME",
                name);
  }
  return std::pair(name, value);
}

Result<GivenOptions> GivenOptions::sort(const Options& options) {
  GivenOptions sorted;
  for (const auto& [name, value] : options) {
    const std::optional<Option> option = option_of(name);
    if (!option) {
      return fail(Code::kInvalid, "there is no storage option {}; possible are {}",
                  base::to_utf8(name), all_names());
    }
    if (value.empty()) continue;
    const auto [given, is_new] = sorted.given_.try_emplace(*option, GivenOption{name, value});
    if (!is_new && given->second.value != value) {
      return fail(Code::kInvalid,
                  "the storage options {} and {} mean the same and have different values; give one",
                  given->second.name, name);
    }
  }
  return sorted;
}

std::string_view GivenOptions::value(Option option) const {
  const auto found = given_.find(option);
  return found == given_.end() ? std::string_view() : found->second.value;
}

Result<bool> GivenOptions::flag(Option option) const {
  if (!has(option)) return false;
  const std::string text = lower(value(option));
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  return fail(Code::kInvalid, "the storage option {} must be true or false", name(option));
}

}  // namespace forebay::io::s3
