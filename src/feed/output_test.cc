// What a batch holds of its samples besides tensors, and epochs over views.
#include <gmock/gmock.h>

#include "feed/testing/feed_fixture.h"
#include "store/view.h"

namespace forebay::feed {
namespace {

base::Pixels whole_image(base::Bytes file) {
  base::Pixels pixels;
  EXPECT_TRUE(image::ImageDecoder().decode(file, std::nullopt, &pixels).ok());
  return pixels;
}

TEST_F(FeedTest, GivesWholeImagesAndFiles) {
  for (const Images images : {Images::kWhole, Images::kNone, Images::kTensor}) {
    FeedOptions wanted = options();
    wanted.images = images;
    wanted.files = images != Images::kWhole;
    const auto feed = open(wanted);
    // The second epoch's batches use the memory of the first epoch's.
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
      ASSERT_TRUE(feed->start({.epoch = epoch, .position = 0}).ok());
      while (const auto batch = feed->next().value()) {
        ASSERT_EQ(batch->whole.size(), images == Images::kWhole ? kBatch : 0u);
        ASSERT_EQ(batch->files.size(), wanted.files ? kBatch : 0u);
        EXPECT_EQ(batch->images_bytes, images == Images::kTensor ? kBatch * kSampleBytes : 0u);
        for (size_t i = 0; i < kBatch; ++i) {
          const base::Bytes file = dataset_->file(batch->samples[i]);
          if (wanted.files) {
            EXPECT_TRUE(std::ranges::equal(batch->files[i], file));
          }
          if (images != Images::kWhole) continue;
          const base::Pixels expected = whole_image(file);
          EXPECT_EQ(batch->whole[i].size.width, expected.width);
          EXPECT_EQ(batch->whole[i].bytes, expected.rgb);
        }
      }
    }
  }
}

TEST_F(FeedTest, BadSamplesLeaveNothingOfThemselves) {
  FeedOptions wanted = validation();
  wanted.images = Images::kWhole;
  wanted.files = true;
  dataset_->make_undecodable(3);
  dataset_->damage(5);
  const auto feed = open(wanted);
  ASSERT_TRUE(feed->start({}).ok());
  const auto batch = feed->next().value();
  for (const size_t bad : {3u, 5u}) {
    EXPECT_EQ(batch->valid[bad], 0);
    EXPECT_TRUE(batch->whole[bad].bytes.empty());
    EXPECT_TRUE(batch->files[bad].empty());
  }
  EXPECT_FALSE(batch->whole[4].bytes.empty());
}

TEST_F(FeedTest, ASelectionIsReadInItsOrder) {
  const std::vector<uint64_t> samples{9, 9, 3, 400, 4, 5, 9, 120};
  const auto view = store::select(dataset_, samples).value();
  FeedOptions wanted = validation();
  wanted.global_batch = 4;
  wanted.files = true;
  const auto feed = Feed::open(view, wanted).value();
  ASSERT_TRUE(feed->start({}).ok());
  size_t at = 0;
  while (const auto batch = feed->next().value()) {
    for (const auto& file : batch->files) {
      EXPECT_TRUE(std::ranges::equal(file, dataset_->file(samples.at(at)))) << at;
      ++at;
    }
  }
  EXPECT_EQ(at, samples.size());
}

TEST_F(FeedTest, AnEpochByItselfReadsNothingOfTheNext) {
  FeedOptions wanted = validation();
  wanted.next_epoch = false;
  const auto feed = open(wanted);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < dataset_->chunk_count(); ++i) bytes += dataset_->chunk(i).bytes;
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    ASSERT_TRUE(feed->start({.epoch = epoch, .position = 0}).ok());
    uint64_t batches = 0;
    while (feed->next().value() != nullptr) ++batches;
    EXPECT_EQ(batches, feed->steps());
    EXPECT_LE(feed->stats().bytes_read, (epoch + 1) * bytes);
  }
}

TEST_F(FeedTest, WaitingSaysWhenThereIsABatch) {
  const auto feed = open(options());
  EXPECT_TRUE(feed->wait_ms(1000));  // next() fails at once
  ASSERT_TRUE(feed->start({}).ok());
  for (uint64_t step = 0; step < feed->steps(); ++step) {
    while (!feed->wait_ms(1)) continue;
    EXPECT_NE(feed->next().value(), nullptr);
  }
  EXPECT_TRUE(feed->wait_ms(1000));
  EXPECT_EQ(feed->next().value(), nullptr);
}

TEST_F(FeedTest, ABadSampleOfASelectionCountsOnce) {
  dataset_->damage(9);
  const auto view = store::select(dataset_, {9, 3, 9, 4, 5, 9}).value();
  FeedOptions wanted = options();
  wanted.order = Stored{};
  wanted.global_batch = 3;
  wanted.bad_samples_max = 2;
  const auto feed = Feed::open(view, wanted).value();
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    ASSERT_TRUE(feed->start({.epoch = epoch, .position = 0, .bad = feed->state().bad}).ok());
    while (const auto batch = feed->next().value()) {
      for (const uint64_t sample : batch->samples) EXPECT_NE(sample % 5, 0u);  // 0 and 5 are bad
      EXPECT_THAT(batch->valid, testing::Each(1));                             // replaced
    }
  }
  EXPECT_EQ(feed->state().bad.size(), 1u);
}

}  // namespace
}  // namespace forebay::feed
