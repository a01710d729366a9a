// Further images of samples get the draws of the samples' own images, and are good or bad together
// with them.
#include <gmock/gmock.h>

#include <array>

#include "feed/testing/feed_fixture.h"

namespace forebay::feed {
namespace {

using testing::HasSubstr;

// Sample i of the fixture's dataset has the size of the samples i + 35 and i - 35.
constexpr uint64_t kSameSize = 35;

class FurtherImagesTest : public FeedTest {
 protected:
  uint64_t partner(uint64_t sample) const {
    return sample + kSameSize < dataset_->sample_count() ? sample + kSameSize : sample - kSameSize;
  }
  std::shared_ptr<FurtherImages> partners() const {
    auto out = std::make_shared<FurtherImages>();
    out->name = "right";
    out->dataset = dataset_;
    for (uint64_t i = 0; i < dataset_->sample_count(); ++i) out->image_of.push_back(partner(i));
    return out;
  }
  static FeedOptions with(FeedOptions options,
                          std::vector<std::shared_ptr<const FurtherImages>> further) {
    options.further = std::move(further);
    return options;
  }
  static base::ByteVector image_of(const Batch& batch, size_t number, size_t slot) {
    const uint8_t* image = batch.images + (number * kBatch + slot) * kSampleBytes;
    return {image, image + kSampleBytes};
  }
  // Expects each sample's further image to be what a Preparer makes of it, drawn for the sample.
  void expect_partners(const FeedOptions& options, const Batch& batch) const {
    ASSERT_EQ(batch.images_each, 3u);
    ASSERT_EQ(batch.images_bytes, 3 * kBatch * kSampleBytes);
    for (size_t slot = 0; slot < kBatch; ++slot) {
      const uint64_t sample = batch.samples[slot];
      const uint64_t drawn_for = batch.drawn_for[slot];
      const std::array<uint64_t, 3> made_of = {sample, partner(sample), sample};
      for (size_t number = 0; number < made_of.size(); ++number) {
        const Seen expected = prepare(options, batch.epoch, made_of[number], drawn_for);
        EXPECT_EQ(image_of(batch, number, slot), expected.image) << number << " in " << slot;
      }
    }
  }
  std::shared_ptr<FurtherImages> own() const {
    auto out = partners();
    for (uint64_t i = 0; i < out->image_of.size(); ++i) out->image_of[i] = i;
    return out;
  }
};

TEST_F(FurtherImagesTest, GetTheDrawsOfTheSamplesOwn) {
  for (const int world_size : {1, 2}) {
    FeedOptions wanted = with(options(), {partners(), own()});
    wanted.lanes = 3;
    wanted.global_batch = kBatch * static_cast<uint32_t>(world_size);
    wanted.world_size = world_size;
    wanted.rank = world_size - 1;
    const auto feed = open(wanted);
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
      ASSERT_TRUE(feed->start({.epoch = epoch, .position = 0}).ok());
      size_t batches = 0;
      for (; const auto batch = feed->next().value(); ++batches) expect_partners(wanted, *batch);
      EXPECT_GT(batches, 9u);
    }
  }
}

TEST_F(FurtherImagesTest, ABadOneMakesTheSampleBad) {
  auto other_size = own();
  other_size->image_of[77] = 78;
  dataset_->damage(partner(50));
  FeedOptions masked = with(validation(), {partners(), other_size});
  masked.images = Images::kOwnSize;
  masked.transform.crop = image::WholeImage{};
  masked.transform.size = {};
  const auto feed = open(masked);
  ASSERT_TRUE(feed->start({}).ok());
  while (const auto batch = feed->next().value()) {
    ASSERT_EQ(batch->whole.size(), 3 * kBatch);
    for (size_t i = 0; i < 3 * kBatch; ++i) {
      EXPECT_EQ(batch->whole[i].bytes.empty(), batch->valid[i % kBatch] == 0);
    }
    for (size_t slot = 0; slot < kBatch; ++slot) {
      const uint64_t sample = batch->samples[slot];
      const bool is_bad = sample == 50 || sample == partner(50) || sample == 77;
      EXPECT_EQ(batch->valid[slot] == 0, is_bad || sample == kNoSample) << sample;
    }
  }
  const auto bad = feed->state().bad;
  ASSERT_EQ(bad.size(), 3u);
  EXPECT_THAT(bad[0].reason, HasSubstr("right: "));
  EXPECT_THAT(bad[1].reason, HasSubstr("all images of a sample must have one size"));
}

TEST_F(FurtherImagesTest, ReplacementsBringTheirOwn) {
  FeedOptions wanted = with(options(), {partners(), own()});
  auto other = own();
  std::set<uint64_t> bad;
  for (uint64_t sample = 0; sample < 60; sample += 7) {
    other->image_of[sample] = sample + 1;  // of another size
    bad.insert(sample);
  }
  const auto feed = open(with(wanted, {partners(), other}));
  ASSERT_TRUE(feed->start({}).ok());
  const Order expected = order(0);
  while (const auto batch = feed->next().value()) {
    for (size_t slot = 0; slot < kBatch; ++slot) {
      const uint64_t position = batch->step * kBatch + slot;
      const uint64_t instead = replacement(expected, position, bad);
      ASSERT_EQ(batch->samples[slot], instead);
      // A replacement is drawn like the sample whose place it takes.
      const uint64_t drawn_for = expected.sample_at(position);
      EXPECT_EQ(image_of(*batch, 1, slot), prepare(wanted, 0, partner(instead), drawn_for).image);
    }
  }
  EXPECT_GT(feed->state().bad.size(), 5u);
}

TEST_F(FurtherImagesTest, TheirTablesAreChecked) {
  auto short_one = partners();
  short_one->image_of.pop_back();
  auto beyond = partners();
  beyond->image_of[3] = dataset_->sample_count();
  for (const auto& wrong : {short_one, beyond}) {
    const auto feed = Feed::open(dataset_, with(options(), {wrong}));
    ASSERT_FALSE(feed);
    EXPECT_THAT(feed.error().message(), HasSubstr("further images \"right\" do not suit"));
  }
  FeedOptions without = with(options(), {partners()});
  without.images = Images::kNone;
  EXPECT_FALSE(Feed::open(dataset_, without));
}

}  // namespace
}  // namespace forebay::feed
