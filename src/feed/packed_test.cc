// A folder of images, packed by the store and fed: the whole data wing together.
#include <gtest/gtest.h>

#include <set>

#include "feed/fake_dataset.h"
#include "feed/feed.h"
#include "io/memory.h"
#include "store/pack.h"

namespace forebay::feed {
namespace {

constexpr uint64_t kSamples = 300;

// Writes a folder by class with the fake dataset's images to `fs`.
void write_folder(io::MemoryFileSystem& fs) {
  io::MemoryFileSystem from;
  const FakeDataset images(from, {kSamples});
  for (uint64_t sample = 0; sample < kSamples; ++sample) {
    const std::string folder = fmt::format("/source/class{}", sample % 3);
    ASSERT_TRUE(fs.make_dirs(folder).ok());
    ASSERT_TRUE(io::write_file_atomically(fs, fmt::format("{}/{:03}.png", folder, sample),
                                          images.file(sample))
                    .ok());
  }
}

TEST(PackedTest, EveryImageOfAFolderComesOnceWithItsClass) {
  io::MemoryFileSystem fs;
  write_folder(fs);
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
    options.transform = image::TrainTransform{.size = 8, .crop = {}};
    options.global_batch = 20;
    options.shuffle = shuffle;
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

}  // namespace
}  // namespace forebay::feed
