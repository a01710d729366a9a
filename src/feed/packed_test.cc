// A folder of images, packed and fed: the store and the feed together.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "feed/feed.h"
#include "feed/testing/fake_dataset.h"
#include "io/testing/memory.h"
#include "store/pack/pack.h"
#include "store/testing/dataset_samples.h"
#include "store/view.h"

namespace forebay::feed {
namespace {

constexpr uint64_t kSamples = 300;

// Writes a folder of classes with the fake dataset's images.
void write_folder(io::FileSystem& fs, const std::string& root) {
  io::MemoryFileSystem from;
  const FakeDataset images(from, {kSamples});
  for (uint64_t sample = 0; sample < kSamples; ++sample) {
    const std::string folder = fmt::format("{}/class{}", root, sample % 3);
    ASSERT_TRUE(fs.put(fmt::format("{}/{:03}.png", folder, sample), images.file(sample)).ok());
  }
}

std::shared_ptr<const store::Dataset> pack_images(io::FileSystem& fs) {
  write_folder(fs, "/source");
  store::PackOptions options;
  options.chunk_bytes = 64 << 10;
  EXPECT_TRUE(store::pack(fs, "/source", fs, "/packed", options));
  return store::open_packed(fs, "/packed").value();
}

FeedOptions small_images() {
  FeedOptions options;
  options.transform = image::Transform{.size = image::square(8), .crop = {}};
  options.global_batch = 20;
  options.threads = 2;
  return options;
}

TEST(PackedTest, EveryImageOfAFolderComesOnceWithItsClass) {
  io::MemoryFileSystem fs;
  write_folder(fs, "/source");
  store::PackOptions pack_options;
  pack_options.chunk_bytes = 64 << 10;
  const auto report = store::pack(fs, "/source", fs, "/packed", pack_options);
  ASSERT_TRUE(report) << report.error().message();
  const auto dataset = store::open_packed(fs, "/packed");
  ASSERT_TRUE(dataset) << dataset.error().message();
  ASSERT_EQ((*dataset)->sample_count(), kSamples);
  EXPECT_GT((*dataset)->chunk_count(), 1u);

  for (const bool shuffle : {true, false}) {
    FeedOptions options;
    options.transform = image::Transform{.size = image::square(8), .crop = {}};
    options.global_batch = 20;
    if (!shuffle) options.order = Stored{};
    options.drop_last = shuffle;
    options.threads = 2;
    const auto feed = Feed::open(*dataset, options);
    ASSERT_TRUE(feed) << feed.error().message();
    ASSERT_TRUE((*feed)->start({}).ok());
    std::set<std::string> keys;
    while (const auto batch = (*feed)->next().value()) {
      for (size_t i = 0; i < batch->samples.size(); ++i) {
        const std::string key = (*dataset)->key(batch->samples[i]).value();
        keys.insert(key);
        EXPECT_NE(key.find(fmt::format("class{}", batch->labels[i])), std::string::npos) << key;
        EXPECT_EQ(batch->valid[i], 1);
      }
    }
    EXPECT_EQ(keys.size(), kSamples);
    EXPECT_TRUE((*feed)->state().bad.empty());
  }
}

// The images of one epoch, and the bytes that were read for them.
std::pair<std::vector<base::ByteVector>, uint64_t> epoch(
    const std::shared_ptr<const store::Dataset>& dataset, bool uncached) {
  FeedOptions options;
  options.transform = image::Transform{.size = image::square(8), .crop = {}};
  options.global_batch = 20;
  options.group_bytes = 100'000;
  options.uncached = uncached;
  const auto feed = Feed::open(dataset, options).value();
  EXPECT_TRUE(feed->start({}).ok());
  std::vector<base::ByteVector> images;
  while (const auto batch = feed->next().value()) {
    images.emplace_back(batch->images, batch->images + batch->images_bytes);
  }
  return {images, feed->stats().bytes_read};
}

TEST(PackedTest, ReadingAroundThePageCacheChangesNothing) {
  const std::string root =
      std::filesystem::temp_directory_path() / fmt::format("forebay_packed_test_{}", ::getpid());
  io::FileSystem& fs = io::posix_file_system();
  write_folder(fs, root + "/source");
  store::PackOptions pack_options;
  pack_options.chunk_bytes = 64 << 10;
  ASSERT_TRUE(store::pack(fs, root + "/source", fs, root + "/packed", pack_options));
  const std::shared_ptr<const store::Dataset> dataset =
      store::open_packed(fs, root + "/packed").value();
  const auto [cached, cached_bytes] = epoch(dataset, false);
  const auto [uncached, uncached_bytes] = epoch(dataset, true);
  EXPECT_EQ(cached.size(), kSamples / 20);
  EXPECT_TRUE(cached == uncached);
  EXPECT_GT(uncached_bytes, 100'000u);
  std::filesystem::remove_all(root);
}

TEST(PackedTest, APositionHoldsWhenPartsAreDividedOtherwise) {
  io::MemoryFileSystem fs;
  const auto whole = pack_images(fs);
  ASSERT_GT(whole->chunk_count(), 2u);
  std::vector<store::Chunk> chunks;
  for (uint32_t i = 0; i < whole->chunk_count(); ++i) {
    chunks.push_back({whole->chunk(i), whole->read_chunk_index(i).value(), {}});
  }
  ASSERT_TRUE(store::write_in_parts(fs, "/packed", whole->schema(), chunks, 2).ok());
  const auto divided = store::open_packed(fs, "/packed").value();
  ASSERT_EQ(divided->fingerprint(), whole->fingerprint());

  const auto before = Feed::open(whole, small_images()).value();
  ASSERT_TRUE(before->start({}).ok());
  for (int batch = 0; batch < 3; ++batch) ASSERT_NE(before->next().value(), nullptr);
  const auto after = Feed::open(divided, small_images()).value();
  ASSERT_TRUE(after->start(before->state()).ok());
  size_t batches = 0;
  while (const auto expected = before->next().value()) {
    const auto batch = after->next().value();
    ASSERT_NE(batch, nullptr);
    EXPECT_EQ(batch->samples, expected->samples);
    EXPECT_EQ(batch->labels, expected->labels);
    ++batches;
  }
  EXPECT_EQ(after->next().value(), nullptr);
  EXPECT_EQ(batches, kSamples / 20 - 3);
}

TEST(PackedTest, PartsOfAMixtureMayHaveDifferentOrigins) {
  io::MemoryFileSystem here;
  io::MemoryFileSystem there;
  const auto both = store::concat({pack_images(here), pack_images(there)}).value();
  // Another origin's chunk lies under the same path: only the right origin has the right bytes.
  const std::string path = both->chunk_label(0);
  ASSERT_EQ(both->chunk_label(both->chunk_count() / 2), path);
  there.content(path).clear();
  FeedOptions options = small_images();
  options.drop_last = false;
  const auto feed = Feed::open(both, options).value();
  ASSERT_TRUE(feed->start({}).ok());
  std::multiset<uint64_t> seen;
  while (const auto batch = feed->next().value()) {
    seen.insert(batch->samples.begin(), batch->samples.end());
  }
  const auto bad = feed->state().bad;
  const store::ChunkInfo& emptied = both->chunk(both->chunk_count() / 2);
  EXPECT_EQ(bad.size(), emptied.samples);
  for (const BadSample& sample : bad) {
    EXPECT_GE(sample.sample, emptied.first_sample);
    EXPECT_LT(sample.sample, emptied.first_sample + emptied.samples);
  }
  EXPECT_EQ(seen.size(), 2 * kSamples);
}

}  // namespace
}  // namespace forebay::feed
