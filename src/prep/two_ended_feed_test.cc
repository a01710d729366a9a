// A host and near sides in one process, over loopback: the batches are those of a feed without near
// sides, whatever happens to the sides.
#include "prep/two_ended_feed.h"

#include <thread>

#include "feed/testing/remote_fixture.h"
#include "prep/near_side.h"

namespace forebay::prep {
namespace {

using feed::SeenBatch;

class TwoEndedFeedTest : public feed::RemoteTest {
 protected:
  static constexpr uint64_t kEpochs = 4;

  static std::vector<SeenBatch> epochs(feed::Feed& feed, uint64_t first, uint64_t end) {
    std::vector<SeenBatch> out;
    for (uint64_t epoch = first; epoch < end; ++epoch) {
      const Status started = feed.start({.epoch = epoch});
      EXPECT_TRUE(started.ok()) << started.message();
      for (SeenBatch& batch : rest(feed)) out.push_back(std::move(batch));
      EXPECT_EQ(feed.state().epoch, epoch);
    }
    return out;
  }
  static std::string url(const NearSide& side) {
    return fmt::format("http://127.0.0.1:{}", side.port());
  }
  static std::unique_ptr<NearSide> serve(const NearSideOptions& options = {}) {
    return NearSide::serve(dataset(*fs_), nullptr, options).value();
  }
};

TEST_F(TwoEndedFeedTest, BatchesAreTheSame) {
  for (const size_t count : {1u, 2u}) {
    const auto plain = start(dataset(*fs_), options());
    const auto expected = epochs(*plain, 0, kEpochs);
    std::vector<std::unique_ptr<NearSide>> sides;
    PrepOptions prep;
    for (size_t i = 0; i < count; ++i) prep.sides.push_back(url(*sides.emplace_back(serve())));
    const auto feed = TwoEndedFeed::open(dataset(*fs_), options(), prep).value();
    EXPECT_EQ(epochs(*feed, 0, kEpochs), expected);
    const PrepStats stats = feed->prep_stats();
    uint64_t bytes = 0;
    for (const SideStats& side : stats.sides) {
      EXPECT_TRUE(side.is_up) << side.trouble;
      bytes += side.bytes;
    }
    EXPECT_GT(bytes, 0u);
  }
}

TEST_F(TwoEndedFeedTest, ItGoesOnInTheMiddle) {
  const auto plain = start(dataset(*fs_), options());
  const auto expected = epochs(*plain, 0, 3);
  const auto side = serve();
  const auto feed = TwoEndedFeed::open(dataset(*fs_), options(), {.sides = {url(*side)}}).value();
  const uint64_t steps = feed->steps();
  for (const uint64_t step : {7u, 3u, 0u, 11u}) {
    ASSERT_TRUE(feed->start({.epoch = 1, .position = step * feed::kRemoteBatch}).ok());
    for (uint64_t at = step; at < steps; ++at) {
      const auto batch = feed->next();
      ASSERT_TRUE(batch) << batch.error().message();
      EXPECT_EQ(seen(**batch), expected[steps + at]);
      EXPECT_EQ(feed->state().position, (at + 1) * feed::kRemoteBatch);
    }
    EXPECT_EQ(feed->next().value(), nullptr);
  }
}

TEST_F(TwoEndedFeedTest, SidesDieAndComeBack) {
  const auto plain = start(dataset(*fs_), options());
  const auto expected = epochs(*plain, 0, 6);
  auto side = serve();
  const uint16_t port = side->port();
  const auto feed = TwoEndedFeed::open(dataset(*fs_), options(), {.sides = {url(*side)}}).value();
  std::vector<SeenBatch> got;
  for (uint64_t epoch = 0; epoch < 6; ++epoch) {
    ASSERT_TRUE(feed->start({.epoch = epoch}).ok());
    for (uint64_t step = 0;; ++step) {
      if (step == 5 && epoch % 2 == 0) side.reset();
      if (step == 5 && epoch % 2 == 1) side = serve({.port = port});
      const auto batch = feed->next();
      ASSERT_TRUE(batch) << batch.error().message();
      if (*batch == nullptr) break;
      got.push_back(seen(**batch));
    }
  }
  EXPECT_EQ(got, expected);
}

TEST_F(TwoEndedFeedTest, BatchesThatAreHeldTakeMemory) {
  const auto plain = start(dataset(*fs_), options());
  const auto expected = epochs(*plain, 0, 1);
  const auto side = serve();
  feed::FeedOptions wanted = options();
  wanted.memory_bytes_max = 8'000'000;
  const auto feed = TwoEndedFeed::open(dataset(*fs_), wanted, {.sides = {url(*side)}}).value();
  std::vector<std::shared_ptr<const feed::Batch>> held;
  std::vector<SeenBatch> got;
  uint64_t errors = 0;
  for (uint64_t epoch = 0; epoch < 20 && errors == 0; ++epoch) {
    ASSERT_TRUE(feed->start({.epoch = epoch}).ok());
    for (;;) {
      auto batch = feed->next();
      if (!batch) {
        ASSERT_EQ(batch.error().code(), base::Code::kNoMemory);
        ++errors;
        held.clear();
        continue;
      }
      if (*batch == nullptr) break;
      if (epoch == 0) got.push_back(seen(**batch));
      held.push_back(std::move(*batch));
    }
  }
  EXPECT_GT(errors, 0u);
  EXPECT_EQ(got, expected);
}

TEST_F(TwoEndedFeedTest, WithoutAnySideTheHostIsAlone) {
  const auto plain = start(dataset(*fs_), options());
  const auto expected = epochs(*plain, 0, 2);
  const auto feed =
      TwoEndedFeed::open(dataset(*fs_), options(), {.sides = {"http://127.0.0.1:9"}}).value();
  EXPECT_EQ(epochs(*feed, 0, 2), expected);
  EXPECT_FALSE(feed->prep_stats().sides[0].is_up);
}

TEST_F(TwoEndedFeedTest, WhatCannotWorkIsSaidAtOnce) {
  const auto side = serve();
  const auto open = [](const feed::FeedOptions& wanted, const std::string& place,
                       const std::string& path = "/mixed") {
    const auto feed = TwoEndedFeed::open(dataset(*fs_, path), wanted, {.sides = {place}});
    return feed ? (*feed)->start({}).message() : feed.error().message();
  };
  EXPECT_EQ(open(options(), url(*side)), "");
  EXPECT_NE(open(options(), url(*side), "/photos").find("another dataset"), std::string::npos);
  for (const char* place : {"storage-7:7311", "http://", "http://localhost", "http://localhost:0",
                            "http://localhost:99999", "http://a@b:1/", "ftp://localhost:1"}) {
    EXPECT_NE(open(options(), place).find("does not name a near side"), std::string::npos) << place;
  }
  EXPECT_NE(open(options(), "http://192.0.2.7:7311").find("https://"), std::string::npos);
  feed::FeedOptions weighted = options();
  weighted.order = feed::Weighted{};
  EXPECT_NE(open(weighted, url(*side)), "");
}

TEST_F(TwoEndedFeedTest, BySecretsAndTls) {
  const NearSideOptions secret{.secret = io::Secret("the secret of this test")};
  const auto side = serve(secret);
  const std::string place = fmt::format("https://localhost:{}", side->port());
  const auto plain = start(dataset(*fs_), options());
  const auto expected = epochs(*plain, 0, 2);
  PrepOptions prep{.sides = {place}, .secret = secret.secret};
  {
    const auto feed = TwoEndedFeed::open(dataset(*fs_), options(), prep).value();
    EXPECT_EQ(epochs(*feed, 0, 2), expected);
    EXPECT_GT(feed->prep_stats().sides[0].bytes, 0u);
  }
  prep.secret = io::Secret("another secret of it");
  const auto feed = TwoEndedFeed::open(dataset(*fs_), options(), prep).value();
  EXPECT_FALSE(feed->prep_stats().sides[0].is_up);
  EXPECT_EQ(epochs(*feed, 0, 2), expected);
}

}  // namespace
}  // namespace forebay::prep
