#include "feed/batch/trace.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "feed/testing/feed_fixture.h"

namespace forebay::feed {
namespace {

using nlohmann::json;

TEST_F(FeedTest, ATraceShowsWhoDidWhat) {
  const auto feed = open(options(1));  // one thread: of several, one might prepare everything
  ASSERT_TRUE(feed->start({}).ok());
  ASSERT_NE(feed->next().value(), nullptr);
  feed->trace().start();
  uint64_t batches = 0;
  while (feed->wait_ms(1000) && feed->next().value() != nullptr) ++batches;
  feed->trace().stop();

  const json trace = json::parse(feed->trace().json());
  EXPECT_EQ(trace["dropped"], 0);
  std::set<std::string> tracks;
  std::set<uint64_t> prepared;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "M") {
      tracks.insert(event["args"]["name"]);
      continue;
    }
    EXPECT_EQ(event["ph"], "X");
    EXPECT_GE(event["ts"], 0);
    EXPECT_GE(event["dur"], 0);
    if (event["name"] == "prepare") prepared.insert(event["args"]["batch"].get<uint64_t>());
  }
  EXPECT_THAT(tracks, testing::Contains("decode 0"));
  EXPECT_GE(prepared.size(), batches - 2);  // the batches ahead were prepared before start()
}

TEST_F(FeedTest, StatsSayWhereTimeWent) {
  const auto feed = open(options(2));
  ASSERT_TRUE(feed->start({}).ok());
  while (feed->next().value() != nullptr) continue;
  const FeedStats stats = feed->stats();
  EXPECT_GT(stats.prepare_ns, 0);
  EXPECT_GT(stats.reading_ns, 0);
  EXPECT_GT(stats.wait_ns, 0);
  EXPECT_GE(stats.starved_ns, 0);
  EXPECT_GE(stats.idle_ns, 0);
}

TEST(TraceTest, IsOffAtFirstAndBeginsAnew) {
  Trace trace;
  {
    const Trace::Span span(trace, "a", {.name = "t"}, "n", 1);
  }
  trace.start();
  {
    const Trace::Span span(trace, "b", {.name = "t"}, "n", 2);
  }
  trace.start();
  {
    const Trace::Span span(trace, "c", {.name = "t", .number = 3}, "n", 4);
  }
  trace.stop();
  {
    const Trace::Span span(trace, "d", {.name = "t"}, "n", 5);
  }
  const json events = json::parse(trace.json())["traceEvents"];
  ASSERT_EQ(events.size(), 2u);  // the track's name, and c
  EXPECT_EQ(events[0]["args"]["name"], "t 3");
  EXPECT_EQ(events[1]["name"], "c");
  EXPECT_EQ(events[1]["args"]["n"], 4);
}

}  // namespace
}  // namespace forebay::feed
