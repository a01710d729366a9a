#include "io/http/retry.h"

#include <algorithm>
#include <charconv>

#include "base/limits.h"

namespace forebay::io::http {

using base::Code;

namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

bool is_success(int code) { return code >= 200 && code < 300; }

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

std::string_view advice(int code) {
  switch (code) {
    case 401:
    case 403:
      return "; check the credentials, and that they allow this";
    case 404:
    case 410:
      return "";
    case 416:
      return "; the file is shorter than it was";
    default:
      return code >= 300 && code < 400 ? "; use the address that it redirects to" : "";
  }
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

Verdict judge(const Outcome& outcome, std::string_view said) {
  const int code = outcome.head.code;
  if (outcome.status.ok() && is_success(code)) return {};
  if (!outcome.status.ok()) {
    return {.status = outcome.status, .again = is_worth_another_try(outcome.status.code())};
  }
  const std::string reason = said.empty() ? std::string() : fmt::format(" ({})", said);
  const std::string_view what = code_of(code) == Code::kNotFound ? "nothing is there: " : "";
  return {.status = base::fail(code_of(code), "{}the server answered {}{}{}", what, code, reason,
                               advice(code)),
          .again = is_worth_another_try(code),
          .after_ns = retry_after_ns(outcome.head)};
}

int64_t wait_ns(const RetryOptions& options, int retry, int64_t after_ns, base::Random& random) {
  int64_t most = options.first_wait_ns;
  for (int i = 1; i < retry && most < options.wait_ns_max; ++i) most *= 2;
  most = std::min(most, options.wait_ns_max);
  const auto half = static_cast<uint64_t>(most / 2);
  return std::max(after_ns, static_cast<int64_t>(half + random.below(half + 1)));
}

}  // namespace forebay::io::http
