// For tests: packed photographs, and their epochs from a local disk and from a remote origin.
#pragma once

#include <gtest/gtest.h>

#include "feed/feed.h"
#include "feed/testing/fake_dataset.h"
#include "feed/testing/remote_origin.h"
#include "io/testing/memory.h"
#include "store/testing/pack_samples.h"

namespace forebay::feed {
using base::ByteVector;

inline constexpr uint32_t kRemoteBatch = 8;

// Photographs of all kinds that rewriting takes, and images that are kept as they were.
inline ByteVector make_remote_image(uint32_t number) {
  jpeg::Sample sample{.width = 400 + number % 7 * 30,
                      .height = 300 + number % 5 * 40,
                      .across = 2,
                      .down = 2,
                      .quality = 80};
  switch (number % 12) {
    case 3:
      sample.across = sample.down = 1;
      break;
    case 5:
      sample.down = 1;
      break;
    case 6:
      sample.across = 1;
      break;
    case 7:
      sample.components = 1;
      sample.across = sample.down = 1;
      break;
    case 8:
      sample.arithmetic = true;
      break;
    case 9:
      sample.across = 4;
      sample.down = 1;
      break;
    case 10:
      sample.progressive = true;
      break;
    default:
      break;
  }
  return jpeg::make_jpeg(sample, number + 1);
}

inline void pack_remote_images(io::MemoryFileSystem& fs, const std::string& to, uint32_t images,
                               bool is_mixed, uint64_t chunk_bytes) {
  io::MemoryFileSystem small;
  const FakeDataset pngs(small, {images});
  const std::string from = to + "_source";
  for (uint32_t number = 0; number < images; ++number) {
    const std::string folder = fmt::format("{}/class{}", from, number % 3);
    const bool is_png = is_mixed && number % 12 == 11;
    const ByteVector image = make_remote_image(is_mixed ? number : number * 12);
    ASSERT_TRUE(fs.put(fmt::format("{}/{:03}.{}", folder, number, is_png ? "png" : "jpg"),
                       is_png ? pngs.file(number) : base::Bytes(image))
                    .ok());
  }
  store::PackOptions options;
  options.threads = 1;
  options.chunk_bytes = chunk_bytes;
  const auto report = store::pack(fs, from, fs, to, options);
  ASSERT_TRUE(report) << report.error().message();
}

// A batch as a value.
struct SeenBatch {
  std::vector<uint64_t> samples;
  std::vector<int32_t> labels;
  std::vector<uint8_t> valid;
  ByteVector images;
  bool operator==(const SeenBatch&) const = default;
};

class RemoteTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    fs_ = std::make_unique<io::MemoryFileSystem>();
    pack_remote_images(*fs_, "/mixed", 96, true, 700'000);
    pack_remote_images(*fs_, "/photos", 64, false, 1'000'000);
  }
  static void TearDownTestSuite() { fs_.reset(); }

  static void copy_mixed(io::MemoryFileSystem& to) {
    for (const auto& [path, content] : store::contents(*fs_, "/mixed")) {
      store::put(to, path, content);
    }
  }

  static FeedOptions options() {
    FeedOptions out;
    out.transform.size = image::square(64);
    out.tensor.dtype = image::DType::kUint8;
    out.global_batch = kRemoteBatch;
    out.lanes = 3;
    out.group_bytes = 1'500'000;
    out.threads = 2;
    out.seed = 7;
    return out;
  }
  static std::shared_ptr<const store::Dataset> dataset(const io::Origin& origin,
                                                       const std::string& path = "/mixed") {
    return store::open_packed(origin, path, {.kept = {}, .loads_locations = false}).value();
  }

  static SeenBatch seen(const Batch& batch) {
    return {batch.samples, batch.labels, batch.valid,
            ByteVector(batch.images, batch.images + batch.images_bytes)};
  }
  // The remaining batches of a feed's epoch.
  static std::vector<SeenBatch> rest(Feed& feed) {
    std::vector<SeenBatch> out;
    for (;;) {
      const auto batch = feed.next();
      EXPECT_TRUE(batch) << batch.error().message();
      if (!batch || *batch == nullptr) return out;
      out.push_back(seen(**batch));
    }
  }
  static std::unique_ptr<Feed> start(const std::shared_ptr<const store::Dataset>& dataset,
                                     const FeedOptions& options, const FeedState& state = {}) {
    auto feed = Feed::open(dataset, options);
    EXPECT_TRUE(feed) << feed.error().message();
    const Status started = (*feed)->start(state);
    EXPECT_TRUE(started.ok()) << started.message();
    return std::move(*feed);
  }
  // The smallest limit with which a feed begins.
  static uint64_t least_memory(const std::shared_ptr<const store::Dataset>& dataset,
                               FeedOptions options) {
    for (options.memory_bytes_max = 100'000;; options.memory_bytes_max += 50'000) {
      const auto feed = Feed::open(dataset, options).value();
      if (feed->start({}).ok()) return options.memory_bytes_max;
    }
  }
  // Expects two epochs to be equal from the local disk and from a remote origin; returns the
  // statistics of the remote feed.
  static FeedStats compare(const FeedOptions& options, const std::string& path = "/mixed",
                           const FeedState& state = {}) {
    const RemoteOrigin remote(*fs_, options.seed);
    const auto near = start(dataset(*fs_, path), options, state);
    const auto far = start(dataset(remote, path), options, state);
    for (uint64_t epoch = state.epoch; epoch < state.epoch + 2; ++epoch) {
      const auto expected = rest(*near);
      EXPECT_FALSE(expected.empty());
      EXPECT_TRUE(rest(*far) == expected) << "epoch " << epoch;
      EXPECT_TRUE(near->start({.epoch = epoch + 1}).ok());
      EXPECT_TRUE(far->start({.epoch = epoch + 1}).ok());
    }
    EXPECT_TRUE(far->state().bad.empty());
    return far->stats();
  }

  static inline std::unique_ptr<io::MemoryFileSystem> fs_;
};

}  // namespace forebay::feed
