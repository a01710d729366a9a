#include "cache/members/suspicions.h"

#include <gtest/gtest.h>

namespace forebay::cache {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

TEST(Suspicions, EachIndependentConfirmationShortensTheTime) {
  Suspicions suspicions;
  suspicions.begin("a", 1, 1000);
  EXPECT_EQ(suspicions.next_end_ns(10), 1000 + 1800 * kMillisecond);
  EXPECT_FALSE(suspicions.confirm("a", 1));
  EXPECT_EQ(suspicions.next_end_ns(10), 1000 + 1800 * kMillisecond);
  EXPECT_TRUE(suspicions.confirm("a", 2));
  EXPECT_EQ(suspicions.next_end_ns(10), 1000 + 1050 * kMillisecond);
  EXPECT_TRUE(suspicions.confirm("a", 3));
  EXPECT_TRUE(suspicions.confirm("a", 4));
  EXPECT_EQ(suspicions.next_end_ns(10), 1000 + 300 * kMillisecond);
  EXPECT_FALSE(suspicions.confirm("a", 5));
  EXPECT_TRUE(suspicions.ended(10, 300 * kMillisecond).empty());
  EXPECT_EQ(suspicions.ended(10, 1000 + 300 * kMillisecond), std::vector<std::string>{"a"});
}

TEST(Suspicions, WhereNobodyCanConfirmNobodyIsWaitedFor) {
  Suspicions suspicions;
  suspicions.begin("a", 1, 0);
  EXPECT_EQ(suspicions.next_end_ns(2), 300 * kMillisecond);
  EXPECT_EQ(suspicions.next_end_ns(3), 1800 * kMillisecond);
  suspicions.begin("b", 1, 0);
  EXPECT_EQ(suspicions.next_end_ns(3), 300 * kMillisecond);
}

TEST(Suspicions, ManyMembersNeedMoreTime) {
  Suspicions suspicions;
  suspicions.begin("a", 1, 0);
  for (uint32_t accuser = 2; accuser <= 4; ++accuser) suspicions.confirm("a", accuser);
  EXPECT_EQ(suspicions.next_end_ns(1000), 750 * kMillisecond);
  suspicions.end("a");
  EXPECT_EQ(suspicions.next_end_ns(1000), INT64_MAX);
}

}  // namespace
}  // namespace forebay::cache
