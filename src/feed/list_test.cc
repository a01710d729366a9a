// feed/: epochs of given samples and of samples that are drawn by weights.
#include <gmock/gmock.h>

#include <filesystem>

#include "feed/testing/feed_fixture.h"
#include "store/view.h"

namespace forebay::feed {
namespace {

using testing::Each;

class ListTest : public FeedTest {
 protected:
  using List = std::shared_ptr<const SampleList>;

  // Returns the epoch from `from` on, by position.
  static Epoch run_feed(Feed& feed, const FeedState& from, const List& list = nullptr,
                        const FeedOptions& options = {}) {
    Epoch out;
    const Status started = feed.start(from, list);
    EXPECT_TRUE(started.ok()) << started.message();
    while (const auto batch = feed.next().value()) {
      copy(*batch, options.rank, options.world_size, &out);
    }
    return out;
  }
  // Random samples, some of them neighbours, some several times.
  SampleList make_list(uint64_t seed, uint64_t count) const {
    base::Random random(seed, base::Purpose::kTest);
    SampleList list;
    while (list.samples.size() < count) {
      const uint64_t sample = random.below(dataset_->sample_count());
      for (uint64_t next = 0; next < random.below(5) && sample + next < 501; ++next) {
        list.samples.push_back(sample + next);
        list.drawn_for.push_back(random.below(1000));
      }
    }
    return list;
  }
  Weighted weighted(uint64_t samples) const {
    std::vector<double> weights;
    for (uint64_t i = 0; i < dataset_->sample_count(); ++i) {
      weights.push_back(static_cast<double>(i % 7));
    }
    return {.weights = std::make_shared<const SampleWeights>(SampleWeights::make(weights).value()),
            .samples = samples};
  }
};

// A view of the samples in storage order is the same epoch, except for the numbers that its
// augmentation is drawn for.
TEST_F(ListTest, GivesTheSamplesInTheirOrderAndReadsNoMoreThanAViewOfThem) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const auto list = std::make_shared<const SampleList>(make_list(seed, 200));
    FeedOptions wanted = options();
    wanted.drop_last = false;
    const auto feed = open(wanted);
    const Epoch epoch = run_feed(*feed, {.epoch = seed}, list);
    for (size_t p = 0; p < list->samples.size(); ++p) {
      ASSERT_EQ(epoch[p], prepare(wanted, seed, list->samples[p], list->drawn_for[p])) << p;
    }
    for (size_t p = list->samples.size(); p < epoch.size(); ++p) EXPECT_FALSE(epoch[p].valid);

    wanted.order = Stored{};
    wanted.next_epoch = false;
    const auto view = Feed::open(store::select(dataset_, list->samples).value(), wanted).value();
    run_feed(*view, {.epoch = seed});
    EXPECT_EQ(feed->stats().bytes_read, view->stats().bytes_read);
  }
}

TEST_F(ListTest, SaysWhatEachSampleIsDrawnFor) {
  const auto list = std::make_shared<const SampleList>(make_list(3, 100));
  FeedOptions wanted = options();
  wanted.drop_last = false;
  const auto feed = open(wanted);
  ASSERT_TRUE(feed->start({}, list).ok());
  size_t at = 0;
  while (const auto batch = feed->next().value()) {
    for (const uint64_t number : batch->drawn_for) {
      EXPECT_EQ(number, at < list->drawn_for.size() ? list->drawn_for[at] : 0);
      ++at;
    }
  }
  ASSERT_TRUE(feed->start({}).ok());  // each sample once again
  const auto batch = feed->next().value();
  EXPECT_EQ(batch->drawn_for, batch->samples);
}

TEST_F(ListTest, ABadSampleIsReplacedByTheNextOfTheList) {
  dataset_->damage(9);
  const auto list = std::make_shared<const SampleList>(
      SampleList{.samples = {9, 3, 9, 4, 5, 9}, .drawn_for = {1, 2, 3, 4, 5, 6}, .step_ends = {}});
  FeedOptions wanted = options();
  wanted.global_batch = 3;
  wanted.bad_samples_max = 2;
  const auto feed = open(wanted);
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    ASSERT_TRUE(feed->start({.epoch = epoch, .position = 0, .bad = feed->state().bad}, list).ok());
    std::vector<uint64_t> samples;
    std::vector<uint64_t> drawn_for;
    while (const auto batch = feed->next().value()) {
      EXPECT_THAT(batch->valid, Each(1));
      samples.insert(samples.end(), batch->samples.begin(), batch->samples.end());
      drawn_for.insert(drawn_for.end(), batch->drawn_for.begin(), batch->drawn_for.end());
    }
    EXPECT_EQ(samples, (std::vector<uint64_t>{3, 3, 4, 4, 5, 3}));
    EXPECT_EQ(drawn_for, (std::vector<uint64_t>{2, 2, 4, 4, 5, 2}));
  }
  ASSERT_EQ(feed->state().bad.size(), 1u);
  EXPECT_EQ(feed->state().bad.front().sample, 9u);
}

TEST_F(ListTest, WeightedEpochsAreTheSameAtAnyWorldSizeAndAfterResuming) {
  FeedOptions wanted = options();
  wanted.order = weighted(301);
  wanted.drop_last = false;
  wanted.even_ranks = true;
  const auto feed = open(wanted);
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    const Epoch expected = run_feed(*feed, {.epoch = epoch});
    const SampleList drawn =
        draw_samples(*std::get<Weighted>(wanted.order).weights, wanted.seed, epoch, 301);
    for (size_t p = 0; p < 301; ++p) {
      ASSERT_EQ(expected[p], prepare(wanted, epoch, drawn.samples[p], drawn.drawn_for[p])) << p;
    }
    for (const int world_size : {2, 3, 8}) {
      const Epoch rest = run(wanted, world_size, {.epoch = epoch, .position = 5 * kBatch});
      for (size_t p = 5 * kBatch; p < 301; ++p) ASSERT_EQ(rest[p], expected[p]) << p;
    }
  }
}

// Epochs differ in what they draw, but each must fit into the memory that the first one got, also
// the bytes between samples that lie far from each other.
TEST_F(ListTest, WeightedEpochsFollowEachOtherInLittleMemory) {
  for (const uint64_t samples : {5u, 40u, 200u}) {
    FeedOptions wanted = options();
    wanted.order = weighted(samples);
    wanted.drop_last = false;
    wanted.memory_bytes_max = 1;
    while (!open(wanted)->start({}).ok()) wanted.memory_bytes_max += 4096;
    const auto feed = open(wanted);
    for (uint64_t epoch = 0; epoch < 30; ++epoch) {
      EXPECT_FALSE(run_feed(*feed, {.epoch = epoch}).empty());
    }
  }
}

std::set<std::string> threads() {
  std::set<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    out.insert(entry.path().filename());
  }
  return out;
}

TEST_F(ListTest, ThreadsAreKeptFromEpochToEpoch) {
  for (const bool by_weights : {false, true}) {
    FeedOptions wanted = options(3);
    if (by_weights) wanted.order = weighted(100);
    const auto feed = open(wanted);
    const auto run_epoch = [&](uint64_t epoch, uint64_t position) {
      const auto list = std::make_shared<const SampleList>(make_list(epoch, 100));
      run_feed(*feed, {.epoch = epoch, .position = position}, by_weights ? nullptr : list);
    };
    run_epoch(0, 0);
    const std::set<std::string> first = threads();
    for (uint64_t epoch = 1; epoch < 20; ++epoch) run_epoch(epoch, epoch % 3 * kBatch);
    EXPECT_EQ(threads(), first);
  }
}

}  // namespace
}  // namespace forebay::feed
