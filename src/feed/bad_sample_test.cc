// feed/: what a damaged sample, chunk or disk does to an epoch.
#include <gmock/gmock.h>

#include "feed/testing/feed_fixture.h"
#include "io/testing/faulty.h"

namespace forebay::feed {
namespace {

using base::Code;
using testing::HasSubstr;

TEST_F(FeedTest, BadSamplesAreReplacedTheSameEverywhere) {
  const Order expected = order(0);
  std::set<uint64_t> bad;
  // Positions 3 and 9, 251 and 257, 470 and 476 follow each other in a lane; 499 and 500 are after
  // the last step and come only as replacements.
  for (const uint64_t position : {3u, 9u, 100u, 251u, 257u, 470u, 476u, 500u, 499u}) {
    const uint64_t sample = expected.sample_at(position);
    bad.insert(sample);
    position % 2 == 0 ? dataset_->damage(sample) : dataset_->make_undecodable(sample);
  }
  for (const int world_size : {1, 2, 3, 8}) {
    std::set<uint64_t> listed;
    const Epoch epoch = run(options(world_size == 1 ? 5 : 1), world_size, {}, &listed);
    ASSERT_EQ(epoch.size(), 480u);
    std::set<uint64_t> listed_expected;
    for (uint64_t p = 0; p < epoch.size(); ++p) {
      const uint64_t own = expected.sample_at(p);
      if (bad.contains(own)) listed_expected.insert(own);
      ASSERT_EQ(epoch[p], prepare(options(), 0, replacement(expected, p, bad), own)) << p;
    }
    EXPECT_EQ(listed, listed_expected);
  }
}

TEST_F(FeedTest, BadSamplesAreListedWhenTheyAreConsumedAndOnce) {
  const Order first = order(0);
  dataset_->damage(first.sample_at(30));
  dataset_->damage(first.sample_at(26));
  const auto feed = open(options());
  ASSERT_TRUE(feed->start({}).ok());
  ASSERT_TRUE(feed->next());
  EXPECT_TRUE(feed->state().bad.empty());
  ASSERT_TRUE(feed->next());
  const auto bad = feed->state().bad;
  ASSERT_EQ(bad.size(), 2u);
  EXPECT_EQ(bad[0].sample, first.sample_at(26));
  EXPECT_EQ(bad[1].sample, first.sample_at(30));
  EXPECT_EQ(bad[0].key, fmt::format("key{}", bad[0].sample));
  EXPECT_EQ(bad[0].chunk, base::to_hex(dataset_->chunk(dataset_->chunk_of(bad[0].sample)).id));
  EXPECT_THAT(bad[0].reason, HasSubstr("checksum"));
  while (feed->next().value() != nullptr) continue;
  FeedState state = feed->state();
  state.epoch = 1;
  state.position = 0;
  ASSERT_TRUE(feed->start(state).ok());
  while (feed->next().value() != nullptr) continue;
  EXPECT_EQ(feed->state().bad, bad);
}

TEST_F(FeedTest, ValidationMasksBadSamples) {
  dataset_->damage(77);
  for (const int world_size : {1, 3}) {
    std::set<uint64_t> bad;
    const Epoch epoch = run(validation(), world_size, {}, &bad);
    EXPECT_FALSE(epoch[77].valid);
    EXPECT_EQ(epoch[77].image, base::ByteVector(kSampleBytes));
    EXPECT_EQ(bad, std::set<uint64_t>{77});
  }
}

TEST_F(FeedTest, TooManyBadSamplesStopTheRun) {
  const Order first = order(0);
  for (const uint64_t position : {1u, 30u, 60u}) dataset_->damage(first.sample_at(position));
  FeedOptions limited = options();
  limited.bad_samples_max = 2;
  const auto feed = open(limited);
  ASSERT_TRUE(feed->start({}).ok());
  ASSERT_TRUE(feed->next());
  ASSERT_TRUE(feed->next());
  const auto third = feed->next();
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code(), Code::kCorrupt);
  EXPECT_THAT(third.error().message(), HasSubstr(fmt::format("key{}", first.sample_at(60))));
  EXPECT_EQ(feed->state().position, 48u);
  EXPECT_EQ(feed->state().bad.size(), 2u);
}

TEST_F(FeedTest, ATruncatedChunkLosesOnlyItsLastSamples) {
  auto& content = fs_.content(dataset_->chunk_label(4));
  content.resize(content.size() - 3 * FakeDataset::kSlotBytes);
  std::set<uint64_t> bad;
  const Epoch epoch = run(validation(), 2, {}, &bad);
  EXPECT_EQ(bad, (std::set<uint64_t>{141, 142, 143}));
  EXPECT_TRUE(epoch[140].valid);
}

// Over a network a single dropped connection would otherwise replace samples silently.
TEST_F(FeedTest, AReadThatIsShortLateOrRefusedIsAnErrorAndNoBadSample) {
  for (const Code code : {Code::kTruncated, Code::kTimedOut, Code::kUnavailable}) {
    for (const int64_t at : {0, 1, 6, 17}) {
      io::FaultyFileSystem faulty(
          fs_, {.on = io::FaultyFileSystem::Fault::On::kRead, .at = at, .code = code});
      const auto feed = Feed::open(dataset_->through(faulty), options()).value();
      ASSERT_TRUE(feed->start({}).ok());
      Result<std::shared_ptr<const Batch>> batch = feed->next();
      while (batch && *batch != nullptr) batch = feed->next();
      ASSERT_FALSE(batch);
      EXPECT_EQ(batch.error().code(), code);
      EXPECT_TRUE(feed->state().bad.empty());
    }
  }
}

TEST_F(FeedTest, ADiskThatFailsIsAnErrorAndNoBadSample) {
  for (const int64_t at : {0, 5, 17}) {
    io::FaultyFileSystem faulty(
        fs_, {.on = io::FaultyFileSystem::Fault::On::kRead, .at = at, .code = Code::kIo});
    const auto feed = Feed::open(dataset_->through(faulty), options()).value();
    ASSERT_TRUE(feed->start({}).ok());
    Result<std::shared_ptr<const Batch>> batch = feed->next();
    while (batch && *batch != nullptr) batch = feed->next();
    ASSERT_FALSE(batch);
    EXPECT_EQ(batch.error().code(), Code::kIo);
    EXPECT_TRUE(feed->state().bad.empty());
  }
  // With the least memory that works, the other loads must not wait for what the failed one held.
  FeedOptions tight = options(3);
  tight.memory_bytes_max = 0;
  while (!open(tight)->start({}).ok()) tight.memory_bytes_max += 1000;
  for (int64_t at = 0; at < 24; ++at) {
    io::FaultyFileSystem faulty(
        fs_, {.on = io::FaultyFileSystem::Fault::On::kRead, .at = at, .code = Code::kIo});
    const auto feed = Feed::open(dataset_->through(faulty), tight).value();
    ASSERT_TRUE(feed->start({}).ok());
    Result<std::shared_ptr<const Batch>> batch = feed->next();
    while (batch && *batch != nullptr) batch = feed->next();
    ASSERT_FALSE(batch) << at;
    EXPECT_EQ(batch.error().code(), Code::kIo);
  }
  ASSERT_TRUE(fs_.remove(dataset_->chunk_label(4)).ok());
  const auto feed = open(validation());
  ASSERT_TRUE(feed->start({}).ok());
  Result<std::shared_ptr<const Batch>> batch = feed->next();
  while (batch && *batch != nullptr) batch = feed->next();
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace forebay::feed
