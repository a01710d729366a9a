#include "io/http/retry.h"

#include <gmock/gmock.h>

#include "io/clock.h"

namespace forebay::io::http {
namespace {

using ::testing::HasSubstr;

// The date of an answer that came so many seconds ago by this machine's clock.
std::string date_before(int64_t seconds) {
  const time_t then = monotonic_clock().wall_ns() / 1'000'000'000 - seconds;
  std::tm parts{};
  ::gmtime_r(&then, &parts);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return text.data();
}

std::string message_for(int code, const std::string& date) {
  const Outcome outcome{.head = {.code = code, .headers = {{"date", date}}}};
  return judge(outcome, "").status.message();
}

TEST(Retry, ARefusalMayComeFromAWrongClock) {
  constexpr int64_t kDay = 86'400;
  EXPECT_THAT(message_for(403, date_before(kDay)), HasSubstr("clock is 1440 minutes ahead of"));
  EXPECT_THAT(message_for(403, date_before(-kDay)), HasSubstr("minutes behind the server's: set"));
  EXPECT_THAT(message_for(403, date_before(10)), HasSubstr("check the credentials"));
  EXPECT_THAT(message_for(401, "no date"), HasSubstr("check the credentials"));
  EXPECT_THAT(message_for(503, date_before(kDay)), HasSubstr("try again later"));
}

TEST(Retry, ARedirectThatIsNotFollowedIsExplained) {
  const auto message = [](std::vector<std::pair<std::string, std::string>> headers) {
    const Outcome outcome{.head = {.code = 307, .headers = std::move(headers)}};
    return judge(outcome, "").status.message();
  };
  EXPECT_THAT(message({{"location", "https://u:p@a.example/b?sig=1#c"}}),
              HasSubstr("it redirects to https://a.example/b, but a signed request"));
  EXPECT_THAT(message({{"location", "https://a/b"}, {"x-amz-bucket-region", "eu-west-1"}}),
              HasSubstr("the bucket is in the region eu-west-1: name no endpoint_url"));
  EXPECT_THAT(message({}), HasSubstr("use the address that it redirects to"));
}

TEST(Retry, AServerThatIsAwayForTenSecondsIsWaitedFor) {
  const RetryOptions options;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    base::Random random(seed, base::Purpose::kRetry, 0);
    int64_t waited_ns = 0;
    for (int retry = 1; retry <= options.retries_max; ++retry) {
      waited_ns += wait_ns(options, retry, random);
    }
    EXPECT_GT(waited_ns, 12'000'000'000) << seed;
    EXPECT_LE(waited_ns, total_wait_ns(options)) << seed;
  }
}

int64_t wait_after(const std::string& retry_after) {
  const Outcome outcome{.head = {.code = 503, .headers = {{"retry-after", retry_after}}}};
  return judge(outcome, "").after_ns;
}

TEST(Retry, AServerSaysHowLongToWait) {
  constexpr int64_t kSecondNs = 1'000'000'000;
  EXPECT_EQ(wait_after("7"), 7 * kSecondNs);
  EXPECT_EQ(wait_after("0"), 0);
  EXPECT_EQ(wait_after("99999"), 60 * kSecondNs);
  for (const char* const nothing : {"-1", "", "soon", "Wed, 21 Oct 2026 07:28:00 GMT"}) {
    EXPECT_EQ(wait_after(nothing), 0) << nothing;
  }
  const Outcome without{.head = {.code = 503}};
  EXPECT_EQ(judge(without, "").after_ns, 0);
}

}  // namespace
}  // namespace forebay::io::http
