// Maps of labels that were packed with their images: they come with what is read of the chunks.
#include <gtest/gtest.h>

#include <algorithm>

#include "feed/testing/remote_fixture.h"
#include "image/testing/png_samples.h"
#include "store/field_files.h"
#include "store/format/target_fields.h"
#include "store/view.h"

namespace forebay::feed {
namespace {

constexpr uint32_t kImages = 60;
constexpr uint32_t kInBatch = 6;

struct SeenMaps {
  std::vector<uint64_t> samples;
  std::vector<uint8_t> valid;
  ByteVector images;
  std::vector<ByteVector> maps;
  bool operator==(const SeenMaps&) const = default;
};

class PackedMapsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    fs_ = std::make_unique<io::MemoryFileSystem>();
    for (uint32_t i = 0; i < kImages; ++i) {
      const jpeg::Sample sample{.width = 300 + i, .height = 240, .quality = 80};
      store::put(*fs_, fmt::format("images/{:03}.jpg", i), jpeg::make_jpeg(sample, i));
      store::put(*fs_, fmt::format("masks/{:03}.png", i), image::grey_png(300 + i, 240, i));
    }
    store::PackOptions options;
    options.threads = 1;
    options.chunk_bytes = 400'000;
    options.masks = "masks";
    const auto report = store::pack(*fs_, "images", *fs_, "set", options);
    ASSERT_TRUE(report) << report.error().message();
    ASSERT_GT(report->chunks, 3u);
    options.masks.clear();
    ASSERT_TRUE(store::pack(*fs_, "masks", *fs_, "apart", options));
  }
  static void TearDownTestSuite() { fs_.reset(); }

  static std::shared_ptr<const store::Dataset> open(const io::Origin& origin) {
    return store::open_packed(origin, "set", {.kept = {}, .loads_locations = false}).value();
  }

  static FeedOptions options(std::shared_ptr<const store::Dataset> maps,
                             std::vector<uint64_t> map_of) {
    auto targets = std::make_shared<Targets>();
    targets->maps = std::move(maps);
    targets->map_of = std::move(map_of);
    FeedOptions out;
    out.transform.size = image::square(64);
    out.global_batch = kInBatch;
    out.lanes = 3;
    out.group_bytes = 500'000;
    out.threads = 2;
    out.next_epoch = false;  // so that an epoch's requests can be counted
    out.targets = std::move(targets);
    return out;
  }

  // The options of a feed that takes the maps that lie beside the images of `packed`; `numbers` are
  // the samples that are fed.
  static FeedOptions beside(const std::shared_ptr<const store::Dataset>& packed,
                            std::vector<uint64_t> numbers) {
    return options(store::field_files(packed, std::string(store::kMaskFields[0])),
                   std::move(numbers));
  }

  static std::vector<uint64_t> all() {
    std::vector<uint64_t> out;
    for (uint64_t i = 0; i < kImages; ++i) out.push_back(i);
    return out;
  }

  // The options of a feed that takes the same maps from a dataset of their own.
  static FeedOptions apart(const store::Dataset& fed) {
    const auto maps = store::open_packed(*fs_, "apart").value();
    std::vector<uint64_t> numbers;
    for (uint64_t i = 0; i < fed.sample_count(); ++i) {
      numbers.push_back(maps->find(fed.key(i).value()).value().value());
    }
    return options(maps, numbers);
  }

  static std::vector<SeenMaps> epoch(Feed& feed) {
    std::vector<SeenMaps> out;
    EXPECT_TRUE(feed.start({}).ok());
    for (;;) {
      const auto batch = feed.next();
      EXPECT_TRUE(batch) << batch.error().message();
      if (!batch || *batch == nullptr) return out;
      const Batch& one = **batch;
      SeenMaps& seen = out.emplace_back(SeenMaps{
          one.samples, one.valid, ByteVector(one.images, one.images + one.images_bytes), {}});
      for (const SampleTargets& targets : one.targets) seen.maps.push_back(targets.labels.bytes);
    }
  }
  static std::vector<SeenMaps> epoch(const std::shared_ptr<const store::Dataset>& dataset,
                                     const FeedOptions& options) {
    return epoch(*Feed::open(dataset, options).value());
  }

  static std::unique_ptr<io::MemoryFileSystem> fs_;
};

std::unique_ptr<io::MemoryFileSystem> PackedMapsTest::fs_;

TEST_F(PackedMapsTest, AreThoseThatLieApart) {
  const auto packed = open(*fs_);
  const auto expected = epoch(packed, apart(*packed));
  EXPECT_EQ(expected.size(), kImages / kInBatch);
  EXPECT_TRUE(epoch(packed, beside(packed, all())) == expected);
  RemoteOrigin far(*fs_);
  const auto remote = open(far);
  EXPECT_TRUE(epoch(remote, beside(remote, all())) == expected);
}

TEST_F(PackedMapsTest, AreReadWithTheirImages) {
  // Slices and regions: as many requests as without maps, except for those of the chunks' indexes.
  for (const Regions regions : {Regions::kNever, Regions::kAuto}) {
    const auto requests = [&](bool with_maps) {
      RemoteOrigin far(*fs_);
      const auto remote = open(far);
      FeedOptions options = beside(remote, all());
      if (!with_maps) options.targets = nullptr;
      options.regions = regions;
      EXPECT_EQ(epoch(remote, options).size(), kImages / kInBatch);
      const auto asked = far.asked();
      return std::ranges::count_if(asked, [](const RemoteOrigin::Asked& one) {
        return one.path.starts_with("set/chunks/") && one.ranges[0].first > 0;
      });
    };
    EXPECT_EQ(requests(true), requests(false));
  }
}

TEST_F(PackedMapsTest, OfViewsAreRead) {
  RemoteOrigin far(*fs_);
  for (const io::Origin* origin :
       {static_cast<const io::Origin*>(fs_.get()), static_cast<const io::Origin*>(&far)}) {
    const auto packed = open(*origin);
    std::vector<uint64_t> numbers = {7, 3, 4, 5, 31, 32, 59, 0, 7, 20, 21, 22};
    const auto some = store::select(packed, numbers).value();
    EXPECT_TRUE(epoch(some, beside(packed, numbers)) == epoch(some, apart(*some)));
  }
}

TEST_F(PackedMapsTest, DamagedOnesAreBadSamples) {
  io::MemoryFileSystem broken;
  for (const auto& [path, content] : store::contents(*fs_, "set")) {
    store::put(broken, path, content);
  }
  const auto maps = store::field_files(open(broken), std::string(store::kMaskFields[0]));
  ASSERT_TRUE(maps->load_all_locations({}).ok());
  const store::Location place = maps->location(11);
  broken.content(maps->chunk_label(place.chunk))[place.offset + 60] ^= 1;
  RemoteOrigin far(broken);
  for (const io::Origin* origin :
       {static_cast<const io::Origin*>(&broken), static_cast<const io::Origin*>(&far)}) {
    const auto packed = open(*origin);
    const auto feed = Feed::open(packed, beside(packed, all())).value();
    epoch(*feed);
    ASSERT_EQ(feed->state().bad.size(), 1u);
    EXPECT_EQ(feed->state().bad[0].sample, 11u);
    EXPECT_NE(feed->state().bad[0].reason.find("the sample's mask: its bytes do not have"),
              std::string::npos);
  }
  // A copy that was damaged on its way is read again.
  RemoteOrigin once(*fs_);
  once.damage(maps->chunk_label(place.chunk), place.offset + 60, 1);
  const auto packed = open(once);
  const auto feed = Feed::open(packed, beside(packed, all())).value();
  EXPECT_TRUE(epoch(*feed) == epoch(packed, apart(*packed)));
  EXPECT_TRUE(feed->state().bad.empty());
}

TEST_F(PackedMapsTest, SamplesWithoutOneAreBad) {
  const auto packed = open(*fs_);
  FeedOptions none = options(store::field_files(packed, "other"), all());
  none.bad_samples_max = kImages;
  none.replace_bad = false;
  const auto feed = Feed::open(packed, none).value();
  epoch(*feed);
  ASSERT_EQ(feed->state().bad.size(), kImages);
  EXPECT_EQ(feed->state().bad[0].reason, "the sample's mask: it is missing or empty");
}

}  // namespace
}  // namespace forebay::feed
