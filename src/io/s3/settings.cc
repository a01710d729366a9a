#include "io/s3/settings.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "base/limits.h"
#include "base/utf8.h"
#include "io/ascii.h"
#include "io/http/url.h"
#include "io/s3/options.h"
#include "io/s3/profile_files.h"

namespace forebay::io::s3 {

using base::Code;
using base::fail;

namespace {

// A value and where it comes from.
using Found = http::GivenText;

// Fills settings from options, the environment and the profile; the first that has a value counts.
class Reading {
 public:
  Reading(const GivenOptions& given, const Surroundings& around) : given_(given), around_(around) {}

  Status read_keys(Settings& settings) const;
  Status read_profile_name(Settings& settings);
  Status read_endpoint(Settings& settings) const;
  Status read_region(Settings& settings) const;
  Status read_addressing(Settings& settings) const;
  Status read_certificates(Settings& settings) const;
  Status read_patience(Settings& settings) const;
  Status read_payer(Settings& settings) const;
  Status read_encryption(Settings& settings) const;
  Status check_is_aws(const Settings& settings, const std::string& name) const;

 private:
  Found find(Option option, std::initializer_list<std::string_view> variables,
             std::initializer_list<std::string_view> properties) const;
  bool reads_aws(const Settings& settings) const { return settings.service == Service::kS3; }

  const GivenOptions& given_;
  const Surroundings& around_;
  Profile profile_ = {};
};

Found Reading::find(Option option, std::initializer_list<std::string_view> variables,
                    std::initializer_list<std::string_view> properties) const {
  if (given_.has(option)) {
    return {std::string(given_.value(option)), "the storage option " + given_.name(option)};
  }
  for (const std::string_view name : variables) {
    if (const auto value = around_.variable(name); !value.empty()) {
      return {std::string(value), std::string(name)};
    }
  }
  for (const std::string_view key : properties) {
    if (const auto value = profile_.get(key); !value.empty()) {
      return {std::string(value), fmt::format("{} of {}", key, profile_.where)};
    }
  }
  return {};
}

Status Reading::read_keys(Settings& settings) const {
  ASSIGN_OR_RETURN(settings.anonymous, given_.flag(Option::kAnonymous));
  settings.access_key_id = std::string(given_.value(Option::kAccessKey));
  settings.secret_access_key = Secret(given_.value(Option::kSecretKey));
  settings.session_token = Secret(given_.value(Option::kSessionToken));
  const bool any = given_.has(Option::kAccessKey) || given_.has(Option::kSecretKey) ||
                   given_.has(Option::kSessionToken);
  const bool both = given_.has(Option::kAccessKey) && given_.has(Option::kSecretKey);
  if (any && settings.anonymous) {
    return fail(Code::kInvalid,
                "the storage option {} asks for unsigned requests, but keys are given too; leave "
                "out one of them",
                given_.name(Option::kAnonymous));
  }
  if (any && given_.has(Option::kProfile)) {
    return fail(Code::kInvalid,
                "the storage options give keys and a profile; leave out one of them");
  }
  if (any && !both) {
    return fail(Code::kInvalid,
                "the storage options key and secret must be given together, and token only with "
                "both");
  }
  return {};
}

Status Reading::read_profile_name(Settings& settings) {
  const Found name = find(Option::kProfile, {"AWS_PROFILE"}, {});
  if (!name.value.empty()) {
    settings.profile = name.value;
    settings.profile_from =
        given_.has(Option::kProfile) ? ProfileFrom::kOption : ProfileFrom::kEnvironment;
  }
  if (!reads_aws(settings)) return {};  // only the keys may come from a profile
  ASSIGN_OR_RETURN(profile_, read_profile(around_, settings.profile));
  if (!profile_.found && !name.value.empty()) {
    return fail(Code::kNotFound, "there is no {}, which {} names", profile_.where, name.where);
  }
  return {};
}

Status Reading::read_endpoint(Settings& settings) const {
  const Found found = reads_aws(settings)
                          ? find(Option::kEndpoint, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"},
                                 {"services.s3.endpoint_url", "endpoint_url"})
                          : find(Option::kEndpoint, {}, {});
  if (found.value.empty()) {
    if (!reads_aws(settings)) settings.endpoint_url = "https://storage.googleapis.com";
    return {};
  }
  ASSIGN_OR_RETURN(const http::Url url, http::parse_url(found.value, found.where));
  settings.endpoint_url = url.text;
  return {};
}

Status Reading::read_region(Settings& settings) const {
  const Found found = reads_aws(settings)
                          ? find(Option::kRegion, {"AWS_REGION", "AWS_DEFAULT_REGION"}, {"region"})
                          : find(Option::kRegion, {}, {});
  // Google accepts signatures for any region, and recommends this name.
  settings.region = found.value.empty() && !reads_aws(settings) ? "auto" : found.value;
  if (!is_made_of_letters_and("-_", settings.region)) {
    return fail(Code::kInvalid, "{} must be a region's name, such as eu-central-1", found.where);
  }
  return {};
}

Status Reading::read_addressing(Settings& settings) const {
  const Found found = reads_aws(settings) ? find(Option::kAddressing, {}, {"s3.addressing_style"})
                                          : find(Option::kAddressing, {}, {});
  if (found.value.empty() || found.value == "auto") return {};
  if (found.value != "path" && found.value != "virtual") {
    return fail(Code::kInvalid, "{} must be path, virtual or auto", found.where);
  }
  settings.addressing = found.value == "path" ? Addressing::kPath : Addressing::kVirtual;
  return {};
}

Status Reading::read_certificates(Settings& settings) const {
  const Result<bool> flag = given_.flag(Option::kVerify);
  if (flag && given_.has(Option::kVerify)) {
    if (*flag) return {};
    return fail(Code::kInvalid,
                "certificates are always verified; instead of false, give the storage option {} "
                "the path of a file with the certificates to trust",
                given_.name(Option::kVerify));
  }
  const Found found = find(Option::kVerify, {"AWS_CA_BUNDLE"}, {"ca_bundle"});
  settings.ca_file = around_.path_of(found.value);
  return {};
}

Status Reading::read_patience(Settings& settings) const {
  const Found attempts = reads_aws(settings)
                             ? find(Option::kMaxAttempts, {"AWS_MAX_ATTEMPTS"}, {"max_attempts"})
                             : find(Option::kMaxAttempts, {}, {});
  ASSIGN_OR_RETURN(settings.patience,
                   http::parse_patience(find(Option::kConnectTimeout, {}, {}),
                                        find(Option::kReadTimeout, {}, {}), attempts));
  return {};
}

// boto3 and AWS's programs write "requester", and others write "true".
Status Reading::read_payer(Settings& settings) const {
  if (!given_.has(Option::kRequestPayer)) return {};
  const std::string& name = given_.name(Option::kRequestPayer);
  const Result<bool> flag = given_.flag(Option::kRequestPayer);
  const bool is_requester = lower(given_.value(Option::kRequestPayer)) == "requester";
  if (!is_requester && !flag) {
    return fail(Code::kInvalid, "the storage option {} must be requester, true or false", name);
  }
  settings.requester_pays = is_requester || *flag;
  if (!settings.requester_pays) return {};
  RETURN_IF_ERROR(check_is_aws(settings, name));
  if (!settings.anonymous) return {};
  return fail(Code::kInvalid,
              "the storage option {} lets this user pay, so requests must be signed; leave out {}",
              name, given_.name(Option::kAnonymous));
}

Status Reading::read_encryption(Settings& settings) const {
  constexpr std::array<std::string_view, 3> kPossible = {"AES256", "aws:kms", "aws:kms:dsse"};
  settings.encryption = std::string(given_.value(Option::kEncryption));
  settings.encryption_key_id = std::string(given_.value(Option::kEncryptionKey));
  if (given_.has(Option::kEncryption)) {
    const std::string& name = given_.name(Option::kEncryption);
    if (std::ranges::find(kPossible, settings.encryption) == kPossible.end()) {
      return fail(Code::kInvalid, "the storage option {} must be AES256, aws:kms or aws:kms:dsse",
                  name);
    }
    RETURN_IF_ERROR(check_is_aws(settings, name));
  }
  if (!given_.has(Option::kEncryptionKey)) return {};
  const std::string& name = given_.name(Option::kEncryptionKey);
  if (!settings.encryption.starts_with("aws:kms")) {
    return fail(Code::kInvalid,
                "the storage option {} names a key of the service KMS; give sse=aws:kms too", name);
  }
  // The id becomes a line of the request's head.
  const bool is_id = is_made_of_letters_and("-_:/.+=@", settings.encryption_key_id);
  if (is_id && settings.encryption_key_id.size() <= base::kS3TokenBytesMax) return {};
  return fail(Code::kInvalid, "the storage option {} must be the id, the alias or the ARN of a key",
              name);
}

// Google's store has other headers for these.
Status Reading::check_is_aws(const Settings& settings, const std::string& name) const {
  if (reads_aws(settings)) return {};
  return fail(Code::kInvalid, "the storage option {} is for s3://, and not for gs://", name);
}

}  // namespace

std::string aws_address(std::string_view service, std::string_view region) {
  const std::string_view country = region.starts_with("cn-") ? ".cn" : "";
  return fmt::format("https://{}{}{}.amazonaws.com{}", service, region.empty() ? "" : ".", region,
                     country);
}

Result<Settings> settings_for(std::string_view scheme, const Options& options,
                              const Surroundings& around) {
  if (scheme != "s3" && scheme != "gs") {
    return fail(Code::kInvalid, "{}:// is not a store with S3's interface; s3:// and gs:// are",
                base::to_utf8(scheme));
  }
  ASSIGN_OR_RETURN(const GivenOptions given, GivenOptions::sort(options));
  Settings settings{.service = scheme == "gs" ? Service::kGoogle : Service::kS3};
  Reading reading(given, around);
  RETURN_IF_ERROR(reading.read_keys(settings));
  RETURN_IF_ERROR(reading.read_profile_name(settings));
  RETURN_IF_ERROR(reading.read_endpoint(settings));
  RETURN_IF_ERROR(reading.read_region(settings));
  RETURN_IF_ERROR(reading.read_addressing(settings));
  RETURN_IF_ERROR(reading.read_certificates(settings));
  RETURN_IF_ERROR(reading.read_patience(settings));
  RETURN_IF_ERROR(reading.read_payer(settings));
  RETURN_IF_ERROR(reading.read_encryption(settings));
  return settings;
}

}  // namespace forebay::io::s3
