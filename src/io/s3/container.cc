// The service that gives credentials to containers in ECS and to pods in EKS.
#include <algorithm>
#include <array>

#include "io/http/url.h"
#include "io/s3/given_out.h"

namespace forebay::io::s3 {

using base::Code;
using base::fail;

namespace {

constexpr std::string_view kFrom = "the container's service";
constexpr std::string_view kRelative = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
constexpr std::string_view kFull = "AWS_CONTAINER_CREDENTIALS_FULL_URI";

// Keys must not travel in the clear over a network, except to AWS's own addresses on the machine.
bool may_be_plain(std::string_view host) {
  constexpr auto kOwn =
      std::to_array<std::string_view>({"169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"});
  return http::is_loopback(host) || std::find(kOwn.begin(), kOwn.end(), host) != kOwn.end();
}

Result<http::Url> service_url(const Surroundings& around) {
  const std::string relative(around.variable(kRelative));
  if (!relative.empty()) {
    if (!relative.starts_with('/')) return fail(Code::kInvalid, "{} must begin with /", kRelative);
    return http::parse_url("http://169.254.170.2" + relative, kRelative, true);
  }
  ASSIGN_OR_RETURN(const http::Url url,
                   http::parse_url(std::string(around.variable(kFull)), kFull, true));
  if (url.scheme != "https" && !may_be_plain(url.host)) {
    return fail(Code::kInvalid,
                "{} must begin with https://, or name this machine or the address of ECS or EKS",
                kFull);
  }
  return url;
}

// The value of the header Authorization; empty if none is set. A file is read each time, because
// EKS writes new tokens into it.
Result<Secret> authorization(const Surroundings& around) {
  const std::string_view file = around.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  Secret token(around.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN"));
  if (!file.empty()) {
    ASSIGN_OR_RETURN(token, around.read_secret(around.path_of(file)));
  }
  if (token.reveal().find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos) {
    return fail(Code::kInvalid, "the token for {} has more than one line", kFrom);
  }
  return token;
}

}  // namespace

Result<StepAnswer> ask_container(const Search& search) {
  const Surroundings& around = search.around;
  if (around.variable(kRelative).empty() && around.variable(kFull).empty()) {
    return StepAnswer{.why_not = fmt::format("{} and {} are not set", kRelative, kFull)};
  }
  ASSIGN_OR_RETURN(const http::Url url, service_url(around));
  ASSIGN_OR_RETURN(const Secret token, authorization(around));
  SmallRequest request{.url = url.text,
                       .headers = {Secret("Accept: application/json")},
                       .ca_file = search.settings.ca_file,
                       .timeout_ms = 2000,
                       .tries = 3};
  if (!token.empty()) {
    Secret header("Authorization: ");
    header.append(token.reveal());
    request.headers.push_back(std::move(header));
  }
  ASSIGN_OR_RETURN(const SmallAnswer answer, ask(request, search.stop));
  if (answer.status != 200) {
    return fail(answer.status >= 500 ? Code::kUnavailable : Code::kInvalid,
                "{} answers with HTTP status {}", kFrom, answer.status);
  }
  return accept_json(answer, kFrom, search.clock);
}

}  // namespace forebay::io::s3
