// A folder of images, packed by the store and fed: the whole data wing together.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "feed/fake_dataset.h"
#include "feed/feed.h"
#include "io/memory.h"
#include "store/pack.h"

namespace forebay::feed {
namespace {

constexpr uint64_t kSamples = 300;

// Writes a folder by class with the fake dataset's images.
void write_folder(io::FileSystem& fs, const std::string& root) {
  io::MemoryFileSystem from;
  const FakeDataset images(from, {kSamples});
  for (uint64_t sample = 0; sample < kSamples; ++sample) {
    const std::string folder = fmt::format("{}/class{}", root, sample % 3);
    ASSERT_TRUE(fs.make_dirs(folder).ok());
    ASSERT_TRUE(io::write_file_atomically(fs, fmt::format("{}/{:03}.png", folder, sample),
                                          images.file(sample))
                    .ok());
  }
}

TEST(PackedTest, EveryImageOfAFolderComesOnceWithItsClass) {
  io::MemoryFileSystem fs;
  write_folder(fs, "/source");
  ASSERT_TRUE(fs.make_dirs("/packed").ok());
  store::PackOptions pack_options;
  pack_options.chunk_bytes = 64 << 10;
  const auto report = store::pack(fs, "/source", "/packed", pack_options);
  ASSERT_TRUE(report) << report.error().message();
  const auto dataset = store::Dataset::open(fs, "/packed");
  ASSERT_TRUE(dataset) << dataset.error().message();
  ASSERT_EQ((*dataset)->sample_count(), kSamples);
  EXPECT_GT((*dataset)->chunk_count(), 1u);

  for (const bool shuffle : {true, false}) {
    FeedOptions options;
    options.transform = image::Transform{.size = image::square(8), .crop = {}};
    options.global_batch = 20;
    options.shuffle = shuffle;
    options.drop_last = shuffle;
    options.threads = 2;
    const auto feed = Feed::open(fs, *dataset, options);
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

// The images of one epoch, and what was read for them.
std::pair<std::vector<base::ByteVector>, uint64_t> epoch(
    const std::shared_ptr<const store::Dataset>& dataset, bool uncached) {
  FeedOptions options;
  options.transform = image::Transform{.size = image::square(8), .crop = {}};
  options.global_batch = 20;
  options.group_bytes = 100'000;
  options.uncached = uncached;
  const auto feed = Feed::open(io::posix_file_system(), dataset, options).value();
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
  ASSERT_TRUE(store::pack(fs, root + "/source", root + "/packed", pack_options));
  const std::shared_ptr<const store::Dataset> dataset =
      store::Dataset::open(fs, root + "/packed").value();
  const auto [cached, cached_bytes] = epoch(dataset, false);
  const auto [uncached, uncached_bytes] = epoch(dataset, true);
  EXPECT_EQ(cached.size(), kSamples / 20);
  EXPECT_TRUE(cached == uncached);
  EXPECT_GT(uncached_bytes, 100'000u);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace forebay::feed
