#include "io/http/link.h"

#include <gtest/gtest.h>

namespace forebay::io::http {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(LinkTest, NothingIsKnownAtFirst) {
  const Link link;
  EXPECT_EQ(link.latency_s(), 0);
  EXPECT_EQ(link.bytes_per_s(), 0);
  EXPECT_EQ(link.slow_ns(), 1000 * kMs);
  EXPECT_EQ(link.bytes_expected(1000 * kMs), 1u);
}

TEST(LinkTest, SlowIsFarOutInTheDistribution) {
  Link link;
  for (int i = 0; i < 256; ++i) link.add_first_byte((i % 10 < 9 ? 80 : 300) * kMs);
  EXPECT_DOUBLE_EQ(link.latency_s(), 0.08);
  EXPECT_EQ(link.slow_ns(), 600 * kMs);
  // What was seen long ago is forgotten.
  for (int i = 0; i < 256; ++i) link.add_first_byte(kMs);
  EXPECT_DOUBLE_EQ(link.latency_s(), 0.001);
  EXPECT_EQ(link.slow_ns(), 100 * kMs);
}

TEST(LinkTest, AFewLateAnswersDoNotMoveTheBound) {
  Link link;
  for (int i = 0; i < 256; ++i) link.add_first_byte((i % 25 == 0 ? 5000 : 10) * kMs);
  EXPECT_EQ(link.slow_ns(), 100 * kMs);
}

TEST(LinkTest, CountsTheTimeInWhichBytesCome) {
  Link link;
  int64_t now_ns = 0;
  // Two bodies at a time, which get 1000 bytes each ms together, and long pauses between.
  for (int round = 0; round < 10; ++round) {
    link.add_bytes(1000, now_ns, true);
    link.add_bytes(1000, now_ns += kMs, true);
    for (int i = 0; i < 98; ++i) link.add_bytes(1000, now_ns += kMs, false);
    link.done();
    link.done();
    now_ns += 10'000 * kMs;
  }
  EXPECT_NEAR(link.bytes_per_s(), 1e6, 1e4);
}

TEST(LinkTest, ABodyIsComparedWithItsShareOfTheLink) {
  Link link;
  int64_t now_ns = 0;
  link.add_bytes(1, now_ns, true);
  link.add_bytes(1, now_ns, true);
  for (int i = 0; i < 200; ++i) link.add_bytes(1000, now_ns += kMs, false);
  // Half of 1 MB/s is a share, and a tenth of it in two seconds the least.
  EXPECT_NEAR(static_cast<double>(link.bytes_expected(2000 * kMs)), 1e5, 1e3);
}

}  // namespace
}  // namespace forebay::io::http
