// Datasets that are far away: slices, and regions of images. Everything but the bytes that are read
// must be the same as from a local disk.
#include <numeric>

#include "feed/plan.h"
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

TEST_F(RemoteTest, EachUseIsInOneSlice) {
  const RemoteOrigin remote(*fs_);
  FeedOptions wanted = options();
  for (const int world_size : {1, 2, 4}) {
    wanted.world_size = world_size;
    wanted.rank = world_size - 1;
    const Planner planner(dataset(remote), wanted, Shuffled{});
    for (const uint64_t start : {0u, 8u, 48u}) {
      const auto plan = planner.plan(1, start).value();
      const Order& order = plan->order;
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

}  // namespace
}  // namespace forebay::feed
