// Web identity: a token that Kubernetes or another provider wrote into a file is exchanged for
// credentials (AWS STS, AssumeRoleWithWebIdentity).
#include <pugixml.hpp>

#include "io/ascii.h"
#include "io/http/url.h"
#include "io/s3/given_out.h"

namespace forebay::io::s3 {

using base::Code;
using base::fail;

namespace {

constexpr std::string_view kFrom = "the token service (STS)";

// The service's address: the one that is set, or AWS's for the region.
Result<http::Url> service_url(const Search& search) {
  for (const std::string_view name : {"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"}) {
    const std::string named(search.around.variable(name));
    if (named.empty()) continue;
    ASSIGN_OR_RETURN(http::Url url, http::parse_url(named, name));
    if (url.scheme != "https" && !http::is_loopback(url.host)) {
      return fail(Code::kInvalid, "{} must begin with https://, because a token is sent there",
                  name);
    }
    return url;
  }
  return http::parse_url(aws_address("sts", search.settings.region), "the token service");
}

Secret form_of(std::string_view role, std::string_view session, const Secret& token) {
  Secret form("Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=");
  form.append(form_value(role).reveal());
  form.append("&RoleSessionName=");
  form.append(form_value(session).reveal());
  form.append("&WebIdentityToken=");
  form.append(form_value(token.reveal()).reveal());
  return form;
}

// The meaning of an error's code. The service's own message is left out, because it may repeat
// parts of the token.
std::string_view meaning_of(std::string_view code) {
  if (code == "ExpiredTokenException") return "the token in the file has expired";
  if (code == "InvalidIdentityToken")
    return "the token is not from the provider that the role trusts";
  if (code == "AccessDenied") return "the role does not trust this token";
  if (code == "IDPCommunicationError")
    return "the token's provider could not be reached; try again";
  return "look the code up in AWS's documentation of AssumeRoleWithWebIdentity";
}

tl::unexpected<Status> refusal(const SmallAnswer& answer, const pugi::xml_document& document) {
  const std::string code =
      document.child("ErrorResponse").child("Error").child("Code").text().as_string();
  constexpr size_t kCodeLength = 64;
  const bool plain =
      !code.empty() && code.size() <= kCodeLength && is_made_of_letters_and(".", code);
  const Code kind =
      answer.status >= 500 || code == "IDPCommunicationError" ? Code::kUnavailable : Code::kInvalid;
  if (!plain) return fail(kind, "{} answers with HTTP status {}", kFrom, answer.status);
  return fail(kind, "{} answers with HTTP status {}, {}: {}", kFrom, answer.status, code,
              meaning_of(code));
}

// Parses the text in place.
Result<StepAnswer> read_xml(const SmallAnswer& answer, std::string& text, const Clock& clock) {
  pugi::xml_document document;
  const bool whole = document.load_buffer_inplace(text.data(), text.size());
  if (answer.status != 200) return refusal(answer, document);
  const pugi::xml_node keys = document.child("AssumeRoleWithWebIdentityResponse")
                                  .child("AssumeRoleWithWebIdentityResult")
                                  .child("Credentials");
  if (!whole || !keys) {
    return fail(Code::kUnavailable,
                "the answer of {} is not the XML of AssumeRoleWithWebIdentity, or not all of it",
                kFrom);
  }
  const GivenOut given{
      .access_key_id = Secret(keys.child("AccessKeyId").text().as_string()),
      .secret_access_key = Secret(keys.child("SecretAccessKey").text().as_string()),
      .session_token = Secret(keys.child("SessionToken").text().as_string()),
      .end = keys.child("Expiration").text().as_string()};
  return accept(given, kFrom, answer.date_ns, clock);
}

}  // namespace

Result<StepAnswer> accept_xml(const SmallAnswer& answer, const Clock& clock) {
  std::string text(answer.body.reveal());
  Result<StepAnswer> read = read_xml(answer, text, clock);
  Secret::wipe(text.data(), text.size());
  return read;
}

Result<StepAnswer> ask_web_identity(const Search& search) {
  const Surroundings& around = search.around;
  if (search.settings.profile_from == ProfileFrom::kOption) {
    return StepAnswer{.why_not = "not used, because the options name a profile"};
  }
  const std::string_view file = around.variable("AWS_WEB_IDENTITY_TOKEN_FILE");
  const std::string_view role = around.variable("AWS_ROLE_ARN");
  if (file.empty()) return StepAnswer{.why_not = "AWS_WEB_IDENTITY_TOKEN_FILE is not set"};
  if (role.empty()) {
    return fail(Code::kInvalid, "AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_ROLE_ARN is not");
  }
  const std::string_view session = around.variable("AWS_ROLE_SESSION_NAME");
  ASSIGN_OR_RETURN(const http::Url url, service_url(search));
  ASSIGN_OR_RETURN(const Secret token, around.read_secret(around.path_of(file)));
  const SmallRequest request{.method = "POST",
                             .url = url.text + "/",
                             .form = form_of(role, session.empty() ? "forebay" : session, token),
                             .ca_file = search.settings.ca_file,
                             .through_proxy = !http::is_loopback(url.host),
                             .timeout_ms = 10'000,
                             .tries = 2};
  ASSIGN_OR_RETURN(const SmallAnswer answer, ask(request, search.stop));
  return accept_xml(answer, search.clock);
}

}  // namespace forebay::io::s3
