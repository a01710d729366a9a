#include "feed/batch/stats.h"

#include <gtest/gtest.h>

namespace forebay::feed {
namespace {

FeedStats far_away() {
  FeedStats stats{.bytes_read = 54'000'000, .whole_bytes = 100'000'000};
  stats.link = {.requests = 1500,
                .retries = 3,
                .hedges = 2,
                .bytes_received = 56'000'000,
                .bytes_sent = 1'000'000,
                .latency_s = 0.0214,
                .bytes_per_s = 23.4e6};
  return stats;
}

TEST(FeedStats, ALinkIsDescribed) {
  EXPECT_EQ(describe_link(far_away()),
            "1500 requests, " + base::human_bytes(56'000'000) +
                " (54 % of whole files), 3 retries, 2 hedges, 23.4 MB/s, 21.4 ms");
  FeedStats begun;
  EXPECT_EQ(describe_link(begun), "");
  begun.link = {.requests = 1, .retries = 1, .hedges = 1};
  EXPECT_EQ(describe_link(begun), "1 request, " + base::human_bytes(0) + ", 1 retry, 1 hedge");
}

TEST(FeedStats, RequestsAndReceivedBytesHaveAPrice) {
  EXPECT_DOUBLE_EQ(cost(far_away(), {.per_1000_requests = 0.0004}), 0.0006);
  EXPECT_DOUBLE_EQ(cost(far_away(), {.per_gb = 0.09}), 0.00504);
  EXPECT_DOUBLE_EQ(cost({}, {.per_1000_requests = 1, .per_gb = 1}), 0);
}

}  // namespace
}  // namespace forebay::feed
