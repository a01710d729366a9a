#include "cache/peers/standings.h"

#include <gtest/gtest.h>

namespace forebay::cache {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;
constexpr uint64_t kBytes = 1u << 20;

Standings::Request request(const std::string& member, int64_t begin_ns, int64_t end_ns) {
  return {.member = member, .begin_ns = begin_ns, .end_ns = end_ns, .bytes = kBytes};
}

// How long a process waits in vain in an hour if it asks one member after the other whenever it
// may. A wrong answer takes `took_ns`; `is_right` says which answers are right.
template <class IsRight>
int64_t waited_of_an_hour(int members, int64_t took_ns, IsRight is_right) {
  Standings standings;
  int64_t waited_ns = 0;
  int64_t now_ns = 0;
  for (int64_t number = 0; now_ns < 3600 * kSecond; ++number) {
    const std::string member = std::to_string(number % members);
    now_ns += kMs;
    if (!standings.may_ask(member, now_ns)) continue;
    const bool right = is_right(number / members);
    const auto asked = request(member, now_ns, now_ns + (right ? kMs : took_ns));
    right ? standings.succeed(asked) : standings.fail(asked);
    now_ns = asked.end_ns;
    if (!right) waited_ns += took_ns;
  }
  return waited_ns;
}

TEST(Standings, AMemberThatFailsIsLeftAloneForTenTimesAsLong) {
  Standings standings;
  standings.fail(request("a", 0, 2 * kSecond));
  EXPECT_FALSE(standings.may_ask("a", 21 * kSecond));
  EXPECT_TRUE(standings.may_ask("b", 21 * kSecond));
  EXPECT_TRUE(standings.may_ask("a", 23 * kSecond));
}

TEST(Standings, OneThatFailsAtOnceIsLeftAloneLongerEachTime) {
  Standings standings;
  int64_t now_ns = 0;
  for (const int64_t out_ms : {500, 1000, 2000, 4000, 8000, 16'000, 30'000, 30'000}) {
    standings.fail(request("a", now_ns, now_ns));
    EXPECT_FALSE(standings.may_ask("a", now_ns + out_ms * kMs - 1)) << out_ms;
    EXPECT_TRUE(standings.may_ask("a", now_ns + out_ms * kMs)) << out_ms;
    now_ns += out_ms * kMs;
  }
  standings.succeed(request("a", now_ns, now_ns));
  standings.fail(request("a", now_ns, now_ns));
  EXPECT_TRUE(standings.may_ask("a", now_ns + 500 * kMs));
}

TEST(Standings, WaitsInVainTakeATenthOfTheTimeAtMost) {
  const int64_t most_ns = 3600 * kSecond / 10 + 25 * kSecond;
  const auto never = [](int64_t) { return false; };
  // Right answers in between, and invented members, do not allow longer waits.
  const auto now_and_then = [](int64_t round) { return round % 2 == 0; };
  const auto at_first = [](int64_t round) { return round == 0; };
  for (const int members : {1, 2, 30, 4096}) {
    EXPECT_LE(waited_of_an_hour(members, 5 * kSecond, never), most_ns) << members;
    EXPECT_LE(waited_of_an_hour(members, 5 * kSecond, now_and_then), most_ns) << members;
    EXPECT_LE(waited_of_an_hour(members, 5 * kSecond, at_first), most_ns) << members;
    EXPECT_LE(waited_of_an_hour(members, 100 * kMs, never), most_ns) << members;
  }
  EXPECT_GT(waited_of_an_hour(4096, 5 * kSecond, never), 300 * kSecond);  // the allowance is used
}

TEST(Standings, MembersThatAnswerAreAskedThoughOthersDoNot) {
  Standings standings;
  standings.succeed(request("good", 0, kMs));
  for (int i = 0; i < 3; ++i) {
    standings.fail(request(std::to_string(i), i * 5 * kSecond, (i + 1) * 5 * kSecond));
  }
  EXPECT_TRUE(standings.may_ask("good", 15 * kSecond));
  EXPECT_FALSE(standings.may_ask("stranger", 15 * kSecond));
  EXPECT_TRUE(standings.may_ask("stranger", 60 * kSecond));
}

TEST(Standings, WaitsAtTheSameTimeCountOnce) {
  Standings standings;
  for (int i = 0; i < 100; ++i) standings.fail(request(std::to_string(i), 0, 5 * kSecond));
  EXPECT_TRUE(standings.may_ask("stranger", 5 * kSecond));
}

TEST(Standings, ALateAnswerIsComparedWithTheOrigin) {
  Standings slow_origin;
  slow_origin.note_origin(kBytes, 0, 3 * kSecond);
  slow_origin.succeed(request("a", 3 * kSecond, 8 * kSecond));
  EXPECT_TRUE(slow_origin.may_ask("a", 8 * kSecond));

  Standings fast_origin;
  fast_origin.note_origin(kBytes, 0, 100 * kMs);
  fast_origin.succeed(request("a", kSecond, 2500 * kMs));  // not late yet
  EXPECT_TRUE(fast_origin.may_ask("a", 2500 * kMs));
  fast_origin.succeed(request("a", 3 * kSecond, 8 * kSecond));
  EXPECT_FALSE(fast_origin.may_ask("a", 8 * kSecond));
  EXPECT_TRUE(fast_origin.may_ask("a", 8600 * kMs));
}

TEST(Standings, WhereTheOriginWasNotMeasuredItIsFirst) {
  Standings standings;
  standings.succeed(request("a", 0, 5 * kSecond));
  EXPECT_FALSE(standings.may_ask("a", 5 * kSecond));
  EXPECT_TRUE(standings.may_ask("b", 5 * kSecond));
  EXPECT_TRUE(standings.may_ask("a", 5600 * kMs));
  standings.note_origin(kBytes, 5 * kSecond, 5100 * kMs);
  standings.succeed(request("a", 6 * kSecond, 11 * kSecond));
  EXPECT_FALSE(standings.may_ask("a", 11'900 * kMs));
  EXPECT_TRUE(standings.may_ask("a", 12'100 * kMs));
}

TEST(Standings, AnAnswerThatWasAskedForBeforeAFailureChangesNothing) {
  Standings standings;
  standings.fail(request("a", 0, kMs));
  standings.succeed(request("a", 0, 2 * kMs));
  EXPECT_FALSE(standings.may_ask("a", 400 * kMs));
}

TEST(Standings, WrongBytesAreNotForgottenForRightOnes) {
  Standings standings;
  int64_t now_ns = kSecond;
  for (const int64_t out_ms : {500, 2000, 8000, 30'000, 30'000}) {
    standings.distrust("a", now_ns);
    standings.distrust("a", now_ns + kMs);  // by a read at the same time
    EXPECT_FALSE(standings.may_ask("a", now_ns + out_ms * kMs - 1)) << out_ms;
    now_ns += out_ms * kMs;
    EXPECT_TRUE(standings.may_ask("a", now_ns)) << out_ms;
    standings.succeed(request("a", now_ns, now_ns));
  }
}

TEST(Standings, WhoIsNoMemberIsForgotten) {
  Standings standings;
  standings.fail(request("a", 0, kSecond));
  standings.keep_only({"b"});
  EXPECT_TRUE(standings.may_ask("a", kSecond));
}

}  // namespace
}  // namespace forebay::cache
