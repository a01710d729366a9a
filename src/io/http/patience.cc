#include "io/http/patience.h"

#include <charconv>

#include "base/limits.h"

namespace forebay::io::http {

using base::Code;
using base::fail;

namespace {

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Result<std::optional<int64_t>> timeout_ns(const GivenText& given) {
  if (given.value.empty()) return std::optional<int64_t>();
  const auto seconds = number_of<double>(given.value);
  if (seconds && *seconds >= 1 && *seconds <= base::kTimeoutSecondsMax) {
    return static_cast<int64_t>(*seconds * 1e9);
  }
  return fail(Code::kInvalid, "{} must be a number of seconds, from 1 to {}", given.where,
              base::kTimeoutSecondsMax);
}

Result<std::optional<int>> attempts_max(const GivenText& given) {
  if (given.value.empty()) return std::optional<int>();
  const auto attempts = number_of<int>(given.value);
  if (attempts && *attempts >= 1 && *attempts <= base::kAttemptsMax) return *attempts;
  return fail(Code::kInvalid, "{} must be a whole number, from 1 to {}", given.where,
              base::kAttemptsMax);
}

}  // namespace

void Patience::apply_to(ServiceOptions& options) const {
  options.client.connect_ns = connect_ns.value_or(options.client.connect_ns);
  options.client.stall_ns = stall_ns.value_or(options.client.stall_ns);
  if (attempts_max) options.retry.retries_max = *attempts_max - 1;
}

Result<Patience> parse_patience(const GivenText& connect, const GivenText& read,
                                const GivenText& attempts) {
  Patience patience;
  ASSIGN_OR_RETURN(patience.connect_ns, timeout_ns(connect));
  ASSIGN_OR_RETURN(patience.stall_ns, timeout_ns(read));
  ASSIGN_OR_RETURN(patience.attempts_max, attempts_max(attempts));
  return patience;
}

}  // namespace forebay::io::http
