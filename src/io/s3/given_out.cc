#include "io/s3/given_out.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

#include "io/ascii.h"

namespace forebay::io::s3 {

using base::Code;
using base::fail;

namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

// The number, if the text consists of digits only; else -1.
int digits(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  int number = -1;
  if (!std::all_of(text.begin(), text.end(), is_digit)) return -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// A field of an object; empty if it is missing. The original text is overwritten.
Secret take_text(nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return Secret();
  return Secret::take(found->get_ref<std::string&>());
}

// The time of expiration: empty if there is none, and an invalid time if it is not a text.
std::string end_of(const nlohmann::json& object) {
  const auto found = object.find("Expiration");
  if (found == object.end() || found->is_null()) return "";
  return found->is_string() && *found != "" ? found->get<std::string>() : "malformed";
}

}  // namespace

std::optional<int64_t> utc_ns(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00";
  if (text.size() <= kForm.size() || text[4] != '-' || text[7] != '-' || text[10] != 'T' ||
      text[13] != ':' || text[16] != ':') {
    return std::nullopt;
  }
  std::string_view rest = text.substr(kForm.size());
  if (rest.front() == '.') {
    rest.remove_prefix(std::min(rest.find_first_not_of("0123456789", 1), rest.size()));
  }
  const int year = digits(text.substr(0, 4));
  const int month = digits(text.substr(5, 2));
  const int day = digits(text.substr(8, 2));
  const int hour = digits(text.substr(11, 2));
  const int minute = digits(text.substr(14, 2));
  const int second = digits(text.substr(17, 2));
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  const bool zone = rest == "Z" || rest == "+00:00";
  if (!zone || year < 1970 || year > 2199 || month < 0 || day < 0 || !date.ok() || hour < 0 ||
      hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) {
    return std::nullopt;
  }
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return ((days * 24 + hour) * 60 + minute) * 60 * kNsPerSecond + second * kNsPerSecond;
}

Result<StepAnswer> checked(FoundCredentials found) {
  const Credentials& keys = found.credentials;
  if (!is_visible(keys.access_key_id) || !is_visible(keys.secret_access_key.reveal()) ||
      !is_visible(keys.session_token.reveal())) {
    return fail(Code::kInvalid,
                "the keys from {} hold a blank, a line end or a character that is not ASCII",
                keys.from);
  }
  return StepAnswer{.found = std::move(found)};
}

Result<StepAnswer> accept(const GivenOut& given, std::string_view from,
                          std::optional<int64_t> date_ns, const Clock& clock) {
  if (given.access_key_id.empty() || given.secret_access_key.empty()) {
    return fail(Code::kUnavailable, "the answer of {} holds no access key, or no secret key", from);
  }
  FoundCredentials found{.credentials = {.access_key_id = std::string(given.access_key_id.reveal()),
                                         .secret_access_key = given.secret_access_key,
                                         .session_token = given.session_token,
                                         .from = std::string(from)}};
  if (!given.end.empty()) {
    const std::optional<int64_t> end_ns = utc_ns(given.end);
    if (!end_ns) {
      return fail(Code::kUnavailable,
                  "the answer of {} has a malformed time of expiration; expected one like "
                  "2026-11-24T18:15:00Z",
                  from);
    }
    const int64_t now_ns = date_ns.value_or(clock.wall_ns());
    found.lifetime_ns = *end_ns - now_ns;
    if (*found.lifetime_ns <= 0) {
      return fail(Code::kUnavailable, "the credentials of {} expired {} s ago by {}", from,
                  -*found.lifetime_ns / kNsPerSecond,
                  date_ns ? "its own clock" : "this machine's clock, which may be wrong");
    }
  }
  return checked(std::move(found));
}

Result<StepAnswer> accept_json(const SmallAnswer& answer, std::string_view from,
                               const Clock& clock) {
  const std::string_view text = answer.body.reveal();
  nlohmann::json object = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  if (!object.is_object()) {
    return fail(Code::kUnavailable, "the answer of {} is not a complete JSON object", from);
  }
  const GivenOut given{.access_key_id = take_text(object, "AccessKeyId"),
                       .secret_access_key = take_text(object, "SecretAccessKey"),
                       .session_token = take_text(object, "Token"),
                       .end = end_of(object)};
  return accept(given, from, answer.date_ns, clock);
}

}  // namespace forebay::io::s3
