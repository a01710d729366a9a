#include "io/http/retry.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/limits.h"
#include "io/clock.h"
#include "io/http/url.h"

namespace forebay::io::http {

using base::Code;

namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

bool is_worth_another_try(int code) {
  constexpr int kRequestTimeout = 408;
  constexpr int kConflict = 409;  // S3 says so when another request changes the same object
  constexpr int kTooEarly = 425;
  constexpr int kTooManyRequests = 429;
  constexpr int kNotImplemented = 501;
  return code == kRequestTimeout || code == kConflict || code == kTooEarly ||
         code == kTooManyRequests || (code >= 500 && code != kNotImplemented);
}

Code code_of(int code) {
  constexpr int kNotFound = 404;
  constexpr int kGone = 410;
  constexpr int kPreconditionFailed = 412;
  if (code == kNotFound || code == kGone) return Code::kNotFound;
  if (code == kPreconditionFailed) return Code::kExists;
  return is_worth_another_try(code) ? Code::kUnavailable : Code::kIo;
}

// Advice after a refusal. Its cause may be this machine's clock: servers refuse signatures of
// another time, and S3 does not always say so.
std::string advice_about_access(const Head& head) {
  constexpr int64_t kSkewSeconds = 300;  // AWS accepts 15 minutes
  const int64_t now_ns = monotonic_clock().wall_ns();
  const int64_t ahead = (now_ns - date_ns(head.header("date")).value_or(now_ns)) / kSecondNs;
  if (std::abs(ahead) < kSkewSeconds) return "; check the credentials, and that they allow this";
  return fmt::format("; this machine's clock is {} minutes {} the server's: set it",
                     std::abs(ahead) / 60, ahead > 0 ? "ahead of" : "behind");
}

// Requests to web servers follow redirects. Signed ones do not: their signature is for one host.
std::string advice_about_redirect(const Head& head) {
  const std::string_view region = head.header("x-amz-bucket-region");
  const std::string place = printable(without_query(head.header("location")));
  if (!region.empty()) {
    return fmt::format(
        "; the bucket is in the region {}: name no endpoint_url, or the one of that region",
        printable(region));
  }
  if (place.empty()) return "; use the address that it redirects to";
  return fmt::format(
      "; it redirects to {}, but a signed request is for one host: set the storage option "
      "endpoint_url to the store's own address",
      place);
}

std::string advice(const Head& head) {
  const int code = head.code;
  if (code == 401 || code == 403) return advice_about_access(head);
  if (code == 407) {
    return "; the proxy wants a name and a password: put them into https_proxy or http_proxy, like "
           "http://NAME:PASSWORD@HOST:PORT";
  }
  if (code == 416) return "; the file is shorter than it was";
  if (code >= 300 && code < 400) return advice_about_redirect(head);
  return is_worth_another_try(code) ? "; try again later, or look into the server's log" : "";
}

// Retry-After in seconds; the form with a date is seldom used, and means 0 here.
int64_t retry_after_ns(const Head& head) {
  const std::string_view text = head.header("retry-after");
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || seconds < 0) return 0;
  return std::min(seconds, base::kRetryAfterSecondsMax) * kSecondNs;
}

bool is_worth_another_try(Code code) {
  return code == Code::kUnavailable || code == Code::kTruncated || code == Code::kTimedOut;
}

}  // namespace

bool is_success(int code) { return code >= 200 && code < 300; }

Verdict judge(const Outcome& outcome, std::string_view said) {
  const int code = outcome.head.code;
  if (outcome.status.ok() && is_success(code)) return {};
  if (!outcome.status.ok()) {
    return {.status = outcome.status, .again = is_worth_another_try(outcome.status.code())};
  }
  const std::string reason = said.empty() ? std::string() : fmt::format(" ({})", said);
  const std::string_view what = code_of(code) == Code::kNotFound ? "nothing is there: " : "";
  return {.status = base::fail(code_of(code), "{}the server answered {}{}{}", what, code, reason,
                               advice(outcome.head)),
          .again = is_worth_another_try(code),
          .after_ns = retry_after_ns(outcome.head)};
}

namespace {

int64_t longest_wait_ns(const RetryOptions& options, int retry) {
  int64_t most = options.first_wait_ns;
  for (int i = 1; i < retry && most < options.wait_ns_max; ++i) most *= 2;
  return std::min(most, options.wait_ns_max);
}

}  // namespace

int64_t wait_ns(const RetryOptions& options, int retry, base::Random& random) {
  const auto half = static_cast<uint64_t>(longest_wait_ns(options, retry) / 2);
  return static_cast<int64_t>(half + random.below(half + 1));
}

int64_t total_wait_ns(const RetryOptions& options) {
  int64_t total = 0;
  for (int retry = 1; retry <= options.retries_max; ++retry) {
    total += longest_wait_ns(options, retry);
  }
  return total;
}

}  // namespace forebay::io::http
