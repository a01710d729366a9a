// The metadata service of EC2's machines (IMDSv2). It is asked for a token, then for the name of
// the machine's role, then for the role's credentials.
#include "io/ascii.h"
#include "io/http/url.h"
#include "io/s3/given_out.h"

namespace forebay::io::s3 {

using base::Code;
using base::fail;

namespace {

constexpr std::string_view kFrom = "the instance metadata";
constexpr std::string_view kEndpoint = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
constexpr std::string_view kRoles = "/latest/meta-data/iam/security-credentials/";

Result<SmallAnswer> ask_for(const Search& search, std::string method, std::string url,
                            Secret header) {
  return ask({.method = std::move(method),
              .url = std::move(url),
              .headers = {std::move(header)},
              .timeout_ms = 1000,
              .tries = 2},
             search.stop);
}

tl::unexpected<Status> fail_status(const SmallAnswer& answer, std::string_view what) {
  return fail(answer.status >= 500 ? Code::kUnavailable : Code::kInvalid,
              "{} answers with HTTP status {} when asked for {}", kFrom, answer.status, what);
}

// A role's name is part of the next URL.
bool is_role_name(std::string_view text) {
  constexpr size_t kLength = 128;
  return !text.empty() && text.size() <= kLength && is_made_of_letters_and("+=,.@-_", text);
}

Result<StepAnswer> ask_with_token(const Search& search, const std::string& url,
                                  const SmallAnswer& token) {
  Secret header("X-aws-ec2-metadata-token: ");
  header.append(token.body.reveal());
  ASSIGN_OR_RETURN(const SmallAnswer roles,
                   ask_for(search, "GET", url + std::string(kRoles), header));
  if (roles.status == 404) return StepAnswer{.why_not = "this machine has no role"};
  if (roles.status != 200) return fail_status(roles, "the machine's role");
  const std::string_view names = roles.body.reveal();
  const std::string_view role = names.substr(0, names.find_first_of("\r\n"));
  if (!is_role_name(role)) {
    return fail(Code::kUnavailable, "{} gives no valid name of the machine's role", kFrom);
  }
  ASSIGN_OR_RETURN(const SmallAnswer keys,
                   ask_for(search, "GET", url + std::string(kRoles) + std::string(role), header));
  if (keys.status != 200) return fail_status(keys, "the role's credentials");
  return accept_json(keys, kFrom, search.clock);
}

}  // namespace

Result<StepAnswer> ask_instance_metadata(const Search& search) {
  if (lower(search.around.variable("AWS_EC2_METADATA_DISABLED")) == "true")
    return StepAnswer{.why_not = "AWS_EC2_METADATA_DISABLED is true"};
  const std::string named(search.around.variable(kEndpoint));
  ASSIGN_OR_RETURN(const http::Url url,
                   http::parse_url(named.empty() ? "http://169.254.169.254" : named, kEndpoint));
  const Result<SmallAnswer> token = ask_for(search, "PUT", url.text + "/latest/api/token",
                                            Secret("X-aws-ec2-metadata-token-ttl-seconds: 21600"));
  if (!token && token.error().code() == Code::kCancelled) {
    return tl::unexpected<Status>(token.error());
  }
  // On other machines than EC2's nobody answers, or a server that does not know the request.
  if (!token) return StepAnswer{.why_not = token.error().message()};
  if (token->status == 404 || token->status == 405) {
    return StepAnswer{.why_not = fmt::format("{} gives no token (IMDSv2)", url.text)};
  }
  if (token->status != 200) return fail_status(*token, "a token (IMDSv2)");
  const std::string_view text = token->body.reveal();
  if (text.empty() || !is_visible(text))
    return fail(Code::kUnavailable, "{} gives a malformed token (IMDSv2)", kFrom);
  return ask_with_token(search, url.text, *token);
}

}  // namespace forebay::io::s3
