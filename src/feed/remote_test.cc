// Remote datasets: slices, and regions of images. Everything but the bytes that are read must be
// the same as from a local disk.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "feed/read/plan.h"
#include "feed/testing/remote_fixture.h"
#include "store/view.h"

namespace forebay::feed {
namespace {

TEST_F(RemoteTest, CropsOfPhotographsNeedFewerBytes) {
  const FeedStats stats = compare(options(), "/photos");
  EXPECT_LT(static_cast<double>(stats.bytes_read), 0.65 * static_cast<double>(stats.whole_bytes))
      << stats.bytes_read << " of " << stats.whole_bytes;
  EXPECT_GT(stats.ranges, 4 * stats.requests);
}

TEST_F(RemoteTest, BatchesAreThoseOfALocalDisk) {
  using image::CentreCrop, image::RandomCrop, image::RandomResizedCrop, image::ShortSide;
  FeedOptions training = options();
  training.transform.crop = RandomResizedCrop{.scale_min = 0.05, .scale_max = 0.5};
  training.transform.erasing = {.probability = 0.5};
  FeedOptions scaled = training;
  scaled.transform.size = image::square(32);
  scaled.transform.scaled_decode = true;
  FeedOptions random_crop = options();
  random_crop.transform.crop = RandomCrop{.padding = {4, 4, 4, 4}, .pad_if_needed = true};
  FeedOptions resized = options();
  resized.transform.crop = RandomCrop{.resize = ShortSide{80}, .pad_if_needed = true};
  FeedOptions centre = options();
  centre.transform.crop = CentreCrop{};
  FeedOptions whole = options();
  whole.transform.crop = image::WholeImage{.resize = image::square(64)};
  FeedOptions validation = options();
  validation.transform.crop = CentreCrop{ShortSide{72}};
  validation.order = Stored{};
  validation.drop_last = false;
  validation.even_ranks = true;
  FeedOptions weighted = training;
  weighted.order = Weighted{.weights = std::make_shared<const SampleWeights>(
                                SampleWeights::make(std::vector<double>(96, 1.0)).value()),
                            .samples = 100};
  for (const FeedOptions& one :
       {training, scaled, random_crop, resized, centre, whole, validation, weighted}) {
    const FeedStats stats = compare(one);
    EXPECT_GT(stats.requests, 0u);
  }
}

TEST_F(RemoteTest, ALinkThatChangesChangesNoBatch) {
  for (const uint64_t seed : {1u, 2u, 3u}) {
    FeedOptions wanted = options();
    wanted.seed = seed;
    const RemoteOrigin steady(*fs_, seed);
    const auto expected = rest(*start(dataset(steady, "/photos"), wanted));
    RemoteOrigin varying(*fs_, seed);
    varying.vary_link();
    const auto far = start(dataset(varying, "/photos"), wanted);
    EXPECT_TRUE(rest(*far) == expected) << seed;
    EXPECT_NE(varying.bytes(), steady.bytes()) << seed;  // only what is read depends on the link
  }
}

// An origin whose server answers one range at a time, over a link on which a request costs little.
class OneRangeOrigin final : public io::Origin {
 public:
  explicit OneRangeOrigin(const io::Origin& below) : below_(below) {}
  Result<std::unique_ptr<io::ReadableFile>> open(const std::string& path,
                                                 const io::OpenOptions& options) const override {
    return below_.open(path, options);
  }
  bool is_remote(const std::string&) const override { return true; }
  size_t ranges_max(const std::string&) const override { return 1; }
  io::Traffic traffic(const std::string&) const override {
    return {.latency_s = 1e-6, .bytes_per_s = 1e6};
  }
  Result<std::vector<io::DirEntry>> list(const std::string& path) const override {
    return below_.list(path);
  }
  Result<io::FileInfo> stat(const std::string& path) const override { return below_.stat(path); }
  std::string canonical(const std::string& path) const override { return path; }

 private:
  const io::Origin& below_;
};

TEST_F(RemoteTest, WhereARequestHasOneRangeASampleTakesOneRequest) {
  constexpr uint32_t kImages = 10;
  io::MemoryFileSystem fs;
  for (uint32_t i = 0; i < kImages; ++i) {
    const jpeg::Sample wide{.width = 1600, .height = 800, .quality = 95};
    store::put(fs, fmt::format("/source/class/{}.jpg", i), jpeg::make_jpeg(wide, i + 1));
  }
  ASSERT_TRUE(store::pack(fs, "/source", "/wide", store::PackOptions()));
  const RemoteOrigin remote(fs);
  const OneRangeOrigin single(remote);
  FeedOptions wanted = options();
  wanted.transform.crop = image::RandomResizedCrop{.scale_min = 0.05, .scale_max = 0.2};
  wanted.drop_last = false;
  wanted.next_epoch = false;
  const auto far = start(dataset(single, "/wide"), wanted);
  EXPECT_TRUE(rest(*far) == rest(*start(dataset(fs, "/wide"), wanted)));
  size_t requests = 0;
  for (const RemoteOrigin::Asked& asked : remote.asked()) {
    EXPECT_EQ(asked.ranges.size(), 1u);
    if (asked.path.ends_with(".tar") && asked.ranges[0].first > 0) ++requests;
  }
  EXPECT_GT(requests, 0u);
  EXPECT_LE(requests, kImages);
  EXPECT_LT(far->stats().bytes_read, far->stats().whole_bytes * 9 / 10);
}

TEST_F(RemoteTest, TheLinkIsCountedSinceTheFeedWasOpened) {
  const RemoteOrigin one(*fs_);
  const RemoteOrigin other(*fs_);
  const auto twice = dataset(one, "/photos");
  const auto mixture = store::concat({twice, dataset(other), dataset(*fs_), twice}).value();
  const size_t before = one.asked().size() + other.asked().size();
  ASSERT_GT(before, 0u);
  const auto feed = start(mixture, options());
  (void)rest(*feed);
  // The feed may be reading the next epoch already.
  const auto asked = [&] { return one.asked().size() + other.asked().size() - before; };
  const size_t least = asked();
  const FeedStats stats = feed->stats();
  EXPECT_GE(stats.link.requests, least);
  EXPECT_LE(stats.link.requests, asked());
  const auto near = start(dataset(*fs_), options());
  (void)rest(*near);
  EXPECT_EQ(near->stats().link, io::Traffic());
}

TEST_F(RemoteTest, EachUseIsInOneSlice) {
  const RemoteOrigin remote(*fs_);
  FeedOptions wanted = options();
  for (const int world_size : {1, 2, 4}) {
    wanted.world_size = world_size;
    wanted.rank = world_size - 1;
    const Planner planner(dataset(remote), wanted, Shuffled{});
    for (const uint64_t start : {0u, 8u, 48u}) {
      const auto plan =
          planner.plan(planner.epoch_from(1, planner.steps().step_at(start).value()), {}).value();
      const Order& order = *plan->order;
      EXPECT_GT(plan->loads.size(), 2u);
      std::vector<uint64_t> uses(plan->loads.size());
      for (uint64_t position = start; position < planner.steps().end; ++position) {
        if (!planner.steps().has(position)) continue;
        const auto lane = static_cast<uint32_t>(position % order.lanes());
        const size_t group = order.group_of(lane, position / order.lanes());
        const uint64_t at = position / order.lanes() - order.groups()[group].first_index;
        const size_t load = plan->load_of(group, at);
        ASSERT_LT(load, plan->loads.size());
        const Load& of = plan->loads[load];
        EXPECT_TRUE(of.is_slice);
        EXPECT_EQ(of.group, group);
        EXPECT_EQ(at, of.first + uses[load]++ * of.stride);
        EXPECT_LE(of.first_position, position);
        EXPECT_LE(of.bytes, kSliceBytes);
      }
      for (size_t load = 0; load < uses.size(); ++load) {
        EXPECT_EQ(uses[load], plan->loads[load].uses);
      }
    }
  }
}

TEST_F(RemoteTest, PiecesInOneRequestComeFromOneChunkAndAscend) {
  const RemoteOrigin remote(*fs_);
  const auto feed = start(dataset(remote, "/photos"), options());
  remote.wait_for_requests(1);
  (void)rest(*feed);
  size_t most = 0;
  for (const auto& asked : remote.asked()) most = std::max(most, asked.ranges.size());
  EXPECT_GT(most, 20u);
  EXPECT_LE(most, 256u);
}

TEST_F(RemoteTest, EveryRankGetsItsShare) {
  const RemoteOrigin remote(*fs_);
  FeedOptions one = options();
  for (const int world_size : {2, 4}) {
    one.world_size = world_size;
    for (one.rank = 0; one.rank < world_size; ++one.rank) {
      const auto near = start(dataset(*fs_), one);
      const auto far = start(dataset(remote), one);
      EXPECT_TRUE(rest(*far) == rest(*near)) << one.rank << " of " << world_size;
    }
  }
}

TEST_F(RemoteTest, RepeatedSamplesAndListsAreReadInSlicesToo) {
  const RemoteOrigin remote(*fs_);
  std::vector<uint64_t> samples(94);
  std::iota(samples.begin(), samples.end(), 1);
  const auto near_view = store::select(dataset(*fs_), samples).value();
  const auto far_view = store::select(dataset(remote), samples).value();
  FeedOptions wanted = options();
  wanted.drop_last = false;
  wanted.even_ranks = true;
  wanted.world_size = 4;
  const auto list = std::make_shared<SampleList>();
  for (uint64_t i = 0; i < 90; ++i) list->samples.push_back(i * 37 % 61);
  for (wanted.rank = 0; wanted.rank < 4; ++wanted.rank) {
    const auto near = start(near_view, wanted);
    const auto far = start(far_view, wanted);
    EXPECT_TRUE(rest(*far) == rest(*near)) << wanted.rank;
    ASSERT_TRUE(near->start({.epoch = 1}, list).ok());
    ASSERT_TRUE(far->start({.epoch = 1}, list).ok());
    EXPECT_TRUE(rest(*far) == rest(*near)) << wanted.rank;
  }
}

TEST_F(RemoteTest, AnEpochGoesOnFromItsMiddle) {
  for (const uint64_t batches : {1u, 3u, 5u, 11u}) {
    compare(options(), "/mixed", {.epoch = 2, .position = batches * kRemoteBatch});
  }
}

TEST_F(RemoteTest, OtherImagesAreReadAsAWholeAndWithoutAnIndex) {
  FeedOptions never = options();
  never.regions = Regions::kNever;
  FeedOptions with_files = options();
  with_files.files = true;
  FeedOptions resized = options();
  resized.transform.crop = image::CentreCrop{image::ShortSide{72}};
  for (FeedOptions wanted : {never, with_files, resized}) {
    wanted.next_epoch = false;
    const RemoteOrigin remote(*fs_);
    const auto packed = dataset(remote, "/photos");
    const size_t opened = remote.asked().size();
    const auto far = start(packed, wanted);
    const auto near = start(dataset(*fs_, "/photos"), wanted);
    EXPECT_TRUE(rest(*far) == rest(*near));
    EXPECT_GE(far->stats().bytes_read, far->stats().whole_bytes);
    const auto asked = remote.asked();
    for (size_t i = opened; i < asked.size(); ++i) EXPECT_GT(asked[i].ranges[0].first, 0u);
  }
}

TEST_F(RemoteTest, SmallSamplesComeInWholeGroups) {
  io::MemoryFileSystem fs;
  const auto images = std::make_shared<FakeDataset>(fs, std::vector<uint32_t>{40, 30, 50});
  const RemoteOrigin remote(fs);
  FeedOptions wanted = options();
  wanted.transform = {.size = image::square(8), .crop = {}};
  const auto near = start(images, wanted);
  const auto far = start(images->through(remote), wanted);
  EXPECT_TRUE(rest(*far) == rest(*near));
  for (const auto& asked : remote.asked()) EXPECT_EQ(asked.ranges.size(), 1u);
}

TEST_F(RemoteTest, ViewsReadRegionsToo) {
  const RemoteOrigin remote(*fs_);
  const auto view = [](const std::shared_ptr<const store::Dataset>& base) {
    std::vector<uint64_t> samples;
    for (uint64_t sample = 0; sample < base->sample_count(); ++sample) {
      if (sample % 9 < 7) samples.push_back(sample);
    }
    return store::concat({store::select(base, samples).value(), base}).value();
  };
  const auto near = start(view(dataset(*fs_, "/photos")), options());
  const auto far = start(view(dataset(remote, "/photos")), options());
  EXPECT_TRUE(rest(*far) == rest(*near));
  const FeedStats stats = far->stats();
  EXPECT_LT(static_cast<double>(stats.bytes_read), 0.75 * static_cast<double>(stats.whole_bytes));
}

TEST_F(RemoteTest, PartsOfAMixtureMayBeFarAway) {
  const RemoteOrigin remote(*fs_);
  const auto near =
      start(store::concat({dataset(*fs_), dataset(*fs_, "/photos")}).value(), options());
  const auto far =
      start(store::concat({dataset(*fs_), dataset(remote, "/photos")}).value(), options());
  EXPECT_TRUE(rest(*far) == rest(*near));
}

// Feeds that share a folder on this machine, like processes that follow each other.
class KeptTest : public RemoteTest {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("forebay_feed_{}", ::getpid());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  struct Seen {
    std::vector<SeenBatch> batches;
    uint64_t bytes = 0;          // bytes of all requests
    uint64_t index_bytes = 0;    // bytes of the chunks' indexes among these
    uint64_t header_ranges = 0;  // ranges that begin where an image begins
  };
  // An epoch, from a new feed.
  Seen run(const FeedOptions& options, uint64_t epoch = 0, bool keeps = true) const {
    const RemoteOrigin remote(*fs_, epoch + 1);
    std::shared_ptr<const io::KeptFiles> kept;
    if (keeps) kept = std::make_shared<const io::KeptFiles>(io::KeptFiles::Options{folder_});
    const auto far =
        store::open_packed(remote, "/photos", {.kept = kept, .loads_locations = false}).value();
    Seen seen;
    seen.batches = rest(*start(far, options, {.epoch = epoch}));
    const auto near = dataset(*fs_, "/photos");
    std::set<std::pair<std::string, uint64_t>> begins;
    for (uint64_t i = 0; i < near->sample_count(); ++i) {
      const store::Location location = near->location(i);
      begins.emplace(near->chunk_label(location.chunk), location.offset);
    }
    for (const RemoteOrigin::Asked& asked : remote.asked()) {
      for (const auto& [offset, length] : asked.ranges) {
        seen.bytes += length;
        const bool is_index = offset == 0 && asked.path.ends_with(".tar");
        seen.index_bytes += is_index ? length : 0;
        seen.header_ranges += begins.contains({asked.path, offset}) ? 1 : 0;
      }
    }
    return seen;
  }

  std::string folder_;
};

TEST_F(KeptTest, TheNextProcessReadsNoIndexAndNoHeader) {
  FeedOptions wanted = options();
  wanted.drop_last = false;
  wanted.next_epoch = false;
  wanted.transform.crop = image::RandomResizedCrop{.scale_min = 0.05, .scale_max = 0.3};
  const Seen first = run(wanted);
  EXPECT_GT(first.index_bytes, 0u);
  EXPECT_GE(first.header_ranges, 64u);
  // Images whose regions cover nearly all of them are read as a whole, from their beginning.
  const Seen second = run(wanted);
  EXPECT_EQ(second.index_bytes, 0u);
  EXPECT_LT(second.header_ranges, first.header_ranges / 4);
  EXPECT_LT(second.bytes, first.bytes);
  EXPECT_TRUE(second.batches == first.batches);
  const Seen without = run(wanted, 0, false);
  EXPECT_TRUE(without.batches == first.batches);
  EXPECT_EQ(without.index_bytes, first.index_bytes);
}

TEST_F(KeptTest, DamageInTheFolderChangesNoBatch) {
  FeedOptions wanted = options();
  wanted.next_epoch = false;
  const auto expected = run(wanted).batches;
  base::Random random(3, base::Purpose::kTest);
  for (int round = 0; round < 4; ++round) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      std::fstream file(entry.path(), std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(static_cast<std::streamoff>(random.below(entry.file_size())));
      file.put(static_cast<char>(random.next_u32()));
    }
    EXPECT_TRUE(run(wanted).batches == expected) << round;
  }
  // Changed headers, under a checksum that matches.
  const io::KeptFiles kept({.folder = folder_});
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().stem().string();
    if (!name.ends_with(".headers")) continue;
    ByteVector headers = kept.get(name).value();
    for (int i = 0; i < 20; ++i) headers[random.below(headers.size())] ^= 0x21;
    kept.put(name, headers);
  }
  EXPECT_TRUE(run(wanted).batches == expected);
}

// Ranks that share chunks do not overwrite each other's kept headers.
TEST_F(KeptTest, RanksKeepTheirHeadersTogether) {
  FeedOptions wanted = options();
  wanted.next_epoch = false;
  wanted.lanes = 1;
  wanted.world_size = 2;
  wanted.transform.crop = image::RandomResizedCrop{.scale_min = 0.05, .scale_max = 0.3};
  const Seen first = run(wanted);
  wanted.rank = 1;
  const Seen second = run(wanted);
  EXPECT_LT(run(wanted).header_ranges, second.header_ranges / 2);
  wanted.rank = 0;
  EXPECT_LT(run(wanted).header_ranges, first.header_ranges / 2);
}

}  // namespace
}  // namespace forebay::feed
