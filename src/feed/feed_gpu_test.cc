// Batches on a device are the same as in the host's memory, wherever their JPEGs are decoded. The
// host stands in for a GPU.
#include <gtest/gtest.h>

#include "feed/feed.h"
#include "feed/make/share_gpu.h"
#include "feed/testing/fake_dataset.h"
#include "feed/testing/feed_fixture.h"
#include "io/testing/memory.h"
#include "jpeg/testing/jpeg_samples.h"
#include "store/pack/pack.h"

namespace forebay::feed {
namespace {

// Writes JPEGs of all kinds, and PNGs.
void write_images(io::FileSystem& fs, const std::string& folder, uint64_t count) {
  io::MemoryFileSystem from;
  const FakeDataset pngs(from, {static_cast<uint32_t>(count)});
  for (uint64_t i = 0; i < count; ++i) {
    const auto& factors = jpeg::kLumaFactors[i % std::size(jpeg::kLumaFactors)];
    const auto jpeg = jpeg::make_jpeg({.width = static_cast<uint32_t>(20 + i % 90),
                                       .height = static_cast<uint32_t>(100 - i % 70),
                                       .across = factors[0],
                                       .down = factors[1],
                                       .progressive = i % 7 == 0},
                                      i);
    const bool png = i % 5 == 0;
    const std::string path = fmt::format("{}/{:03}.{}", folder, i, png ? "png" : "jpg");
    ASSERT_TRUE(fs.put(path, png ? pngs.file(i) : base::Bytes(jpeg)).ok());
  }
}

struct Made {
  std::vector<base::ByteVector> images;
  FeedStats stats;
};
Made make(const std::shared_ptr<const store::Dataset>& dataset, const FeedOptions& options) {
  const auto feed = Feed::open(dataset, options).value();
  EXPECT_TRUE(feed->start({}).ok());
  Made out;
  while (const auto batch = feed->next().value()) {
    out.images.emplace_back(batch->images, batch->images + batch->images_bytes);
  }
  out.stats = feed->stats();
  return out;
}

TEST(GpuFeedTest, BatchesOnADeviceAreThoseOfTheHost) {
  constexpr uint64_t kSamples = 150;
  io::MemoryFileSystem fs;
  write_images(fs, "/source/class", kSamples);
  ASSERT_TRUE(store::pack(fs, "/source", fs, "/packed", {}));
  const auto dataset = store::open_packed(fs, "/packed").value();
  FeedOptions options;
  options.transform = image::Transform{
      .size = image::square(24), .crop = {}, .erasing = {.probability = 0.4, .value = {1, 2, 3}}};
  options.global_batch = 40;
  options.drop_last = false;
  options.next_epoch = false;
  options.threads = 3;
  const Made host = make(dataset, options);
  EXPECT_EQ(host.stats.made_on_gpu, 0u);
  ASSERT_EQ(host.images.size(), 4u);
  options.device = image::gpu::host_device();
  for (const Decode decode : {Decode::kHost, Decode::kAuto, Decode::kGpu}) {
    options.decode = decode;
    const Made device = make(dataset, options);
    EXPECT_EQ(device.images, host.images);
    if (decode == Decode::kHost) {
      EXPECT_EQ(device.stats.made_on_gpu, 0u);
    }
    // The GPU makes all but the PNGs, because packing has made the progressive JPEGs baseline.
    if (decode == Decode::kGpu) {
      EXPECT_EQ(device.stats.made_on_gpu, kSamples * 4 / 5);
    }
  }
}

TEST_F(FeedTest, BadSamplesOnADeviceAreReplacedAndMaskedAsOnTheHost) {
  dataset_->damage(order(0).sample_at(3));
  dataset_->make_undecodable(order(0).sample_at(30));
  for (FeedOptions asked : {options(), validation()}) {
    std::set<uint64_t> bad;
    const Epoch expected = run(asked, 1, {}, &bad);
    asked.device = image::gpu::host_device();
    asked.decode = Decode::kGpu;
    std::set<uint64_t> bad_on_device;
    EXPECT_EQ(run(asked, 1, {}, &bad_on_device), expected);
    EXPECT_EQ(bad.size(), 2u);
    EXPECT_EQ(bad_on_device, bad);
  }
}

TEST(GpuShare, GrowsWhileTheConsumerWaitsAndShrinksWhereItDoesNot) {
  const auto of_64 = [](GpuShare& share) {
    int on_gpu = 0;
    for (int i = 0; i < 64; ++i) on_gpu += share.next_is_on_gpu() ? 1 : 0;
    return on_gpu;
  };
  GpuShare share(Decode::kAuto);
  EXPECT_EQ(of_64(share), 0);
  for (int i = 0; i < 5; ++i) share.asked(false);
  EXPECT_EQ(of_64(share), 20);
  for (int i = 0; i < 100; ++i) share.asked(false);
  EXPECT_EQ(of_64(share), 64);
  for (int i = 0; i < 80; ++i) share.asked(true);
  EXPECT_EQ(of_64(share), 54);
  for (int i = 0; i < 1000; ++i) share.asked(true);
  EXPECT_EQ(of_64(share), 0);
  GpuShare all(Decode::kGpu);
  all.asked(true);
  EXPECT_EQ(of_64(all), 64);
  GpuShare none(Decode::kHost);
  none.asked(false);
  EXPECT_EQ(of_64(none), 0);
}

}  // namespace
}  // namespace forebay::feed
