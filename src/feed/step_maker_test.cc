// Single steps, and feeds that leave steps out: each batch is the same as in a feed of all steps.
#include "feed/step_maker.h"

#include <thread>

#include "feed/testing/remote_fixture.h"

namespace forebay::feed {
namespace {

using Steps = std::vector<std::pair<uint64_t, uint64_t>>;  // epochs and steps

class StepMakerTest : public RemoteTest {
 protected:
  // The batches of some epochs.
  static std::map<std::pair<uint64_t, uint64_t>, SeenBatch> all(
      const std::shared_ptr<const store::Dataset>& set, const FeedOptions& options,
      uint64_t epochs) {
    std::map<std::pair<uint64_t, uint64_t>, SeenBatch> out;
    const auto feed = start(set, options);
    for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
      EXPECT_TRUE(feed->start({.epoch = epoch}).ok());
      uint64_t step = 0;
      for (SeenBatch& batch : rest(*feed)) out[{epoch, step++}] = std::move(batch);
    }
    return out;
  }
};

TEST_F(StepMakerTest, AnyStepsInAnyOrderAreThoseOfTheFeed) {
  const RemoteOrigin remote(*fs_);
  for (const io::Origin* origin : std::initializer_list<const io::Origin*>{fs_.get(), &remote}) {
    for (const bool shuffled : {true, false}) {
      for (const int world_size : {1, 2}) {
        FeedOptions wanted = options();
        wanted.drop_last = false;
        wanted.world_size = world_size;
        wanted.rank = world_size - 1;
        wanted.even_ranks = shuffled;
        if (!shuffled) wanted.order = Stored{};
        const auto set = dataset(*origin);
        const auto expected = all(set, wanted, 2);
        Steps steps;
        for (const auto& [key, batch] : expected) steps.push_back(key);
        base::Random random(static_cast<uint64_t>(world_size), base::Purpose::kTest);
        base::shuffle(std::span(steps), random);
        const auto maker = StepMaker::open(set, wanted).value();
        EXPECT_EQ(maker->steps() * 2, steps.size());
        for (const auto& [epoch, step] : steps) maker->ask(epoch, step);
        for (const auto& key : steps) {
          const auto made = maker->next();
          ASSERT_TRUE(made && made->batch);
          EXPECT_EQ(std::pair(made->epoch, made->step), key);
          EXPECT_EQ(made->batch->batch->epoch, key.first);
          EXPECT_EQ(made->batch->batch->step, key.second);
          EXPECT_EQ(seen(*made->batch->batch), expected.at(key));
        }
      }
    }
  }
}

TEST_F(StepMakerTest, OnlyTheirSamplesAreRead) {
  RemoteOrigin remote(*fs_);
  FeedOptions wanted = options();
  wanted.regions = Regions::kNever;
  const auto set = dataset(remote);
  const auto maker = StepMaker::open(set, wanted).value();
  remote.forget();
  maker->ask(0, 3);
  ASSERT_TRUE(maker->next()->batch);
  uint64_t all = 0;
  for (uint32_t chunk = 0; chunk < set->chunk_count(); ++chunk) all += set->chunk(chunk).bytes;
  EXPECT_LT(remote.bytes(), all / 4);  // 8 of 96 samples, with the gaps between them
}

TEST_F(StepMakerTest, StopEndsAWait) {
  const auto maker = StepMaker::open(dataset(*fs_), options()).value();
  std::thread later([&] {
    maker->ask(0, 0);
    maker->stop();
  });
  Result<MadeStep> made = maker->next();
  if (made) made = maker->next();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), base::Code::kCancelled);
  later.join();
}

TEST_F(StepMakerTest, StopEndsAStepWhoseBytesDoNotCome) {
  for (const size_t requests : {1u, 2u, 3u}) {
    RemoteOrigin remote(*fs_);
    FeedOptions wanted = options();
    wanted.regions = Regions::kNever;
    const auto maker = StepMaker::open(dataset(remote), wanted).value();
    maker->ask(0, 0);
    ASSERT_TRUE(maker->next()->batch);
    remote.forget();
    remote.hold(true);
    for (uint64_t step = 1; step < maker->steps(); ++step) maker->ask(0, step);
    std::thread later([&] {
      remote.wait_for_requests(requests);
      maker->stop();
    });
    Result<MadeStep> made = maker->next();
    while (made) made = maker->next();
    EXPECT_EQ(made.error().code(), base::Code::kCancelled);
    later.join();
  }
}

TEST_F(StepMakerTest, AStepThatWasTakenBackIsNotMade) {
  const auto maker = StepMaker::open(dataset(*fs_), options()).value();
  for (uint64_t step = 0; step < 10; ++step) maker->ask(0, step);
  for (uint64_t step = 5; step < 9; ++step) maker->take_back(0, step);
  for (const uint64_t step : {0u, 1u, 2u, 3u, 4u, 9u}) {
    EXPECT_EQ(maker->next().value().batch.value().batch->step, step);
  }
}

TEST_F(StepMakerTest, ListsFollowEachOther) {
  const auto set = dataset(*fs_);
  const auto maker = StepMaker::open(set, options()).value();
  const auto feed = start(set, options());
  base::Random random(1, base::Purpose::kTest);
  for (uint64_t turn = 0; turn < 20; ++turn) {
    SCOPED_TRACE(turn);
    auto list = std::make_shared<SampleList>();
    for (uint64_t i = 0; i < 40 + 8 * turn; ++i) list->samples.push_back(random.below(96));
    if (turn % 5 == 4) list = nullptr;
    ASSERT_TRUE(feed->start({.epoch = 3}, list).ok());
    const auto expected = rest(*feed);
    // Some of the earlier requests are being prepared now.
    const uint64_t begun = maker->begin(list).value();
    ASSERT_EQ(maker->steps(), expected.size());
    for (uint64_t step = maker->steps(); step-- > 0;) maker->ask(3, step);
    for (uint64_t step = maker->steps(); step-- > turn % 4;) {
      const auto made = maker->next();
      ASSERT_TRUE(made && made->batch);
      EXPECT_EQ(made->begun, begun);
      ASSERT_EQ(made->step, step);
      EXPECT_EQ(seen(*made->batch->batch), expected[step]);
    }
  }
  auto wrong = std::make_shared<SampleList>();
  wrong->samples = {96};
  EXPECT_EQ(base::status_of(maker->begin(wrong)).code(), base::Code::kInvalid);
}

// A filter that takes some steps.
class Some final : public StepFilter {
 public:
  explicit Some(std::function<bool(uint64_t, uint64_t)> takes) : takes_(std::move(takes)) {}
  bool takes(uint64_t epoch, uint64_t step) override {
    asked.emplace_back(epoch, step);
    return takes_(epoch, step);
  }
  void made(uint64_t epoch, uint64_t step) override { ready.emplace_back(epoch, step); }
  Steps asked;
  Steps ready;

 private:
  const std::function<bool(uint64_t, uint64_t)> takes_;
};

TEST_F(StepMakerTest, AFeedLeavesStepsOut) {
  const RemoteOrigin remote(*fs_);
  constexpr uint64_t kEpochs = 3;
  const auto takes = std::to_array<std::function<bool(uint64_t, uint64_t)>>({
      [](uint64_t, uint64_t step) { return step % 3 != 1; },
      [](uint64_t, uint64_t step) { return step < 5; },
      [](uint64_t, uint64_t step) { return step > 8; },
      [](uint64_t epoch, uint64_t step) { return (epoch * 12 + step) % 7 == 3; },
      [](uint64_t epoch, uint64_t) { return epoch != 1; },
      [](uint64_t, uint64_t) { return false; },
  });
  for (const io::Origin* origin : std::initializer_list<const io::Origin*>{fs_.get(), &remote}) {
    for (const int threads : {1, 3}) {
      FeedOptions wanted = options();
      wanted.threads = threads;
      const auto set = dataset(*origin);
      const auto expected = all(set, wanted, kEpochs);
      for (size_t which = 0; which < takes.size(); ++which) {
        SCOPED_TRACE(which);
        const auto filter = std::make_shared<Some>(takes[which]);
        wanted.filter = filter;
        wanted.memory_bytes_max = least_memory(set, wanted);
        filter->asked.clear();
        filter->ready.clear();
        Steps given;
        {
          const auto feed = start(set, wanted);
          for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
            if (epoch > 0) {
              ASSERT_TRUE(feed->start({.epoch = epoch}).ok());
            }
            for (;;) {
              const auto batch = feed->next();
              ASSERT_TRUE(batch) << batch.error().message();
              if (*batch == nullptr) break;
              EXPECT_EQ((*batch)->epoch, epoch);
              given.emplace_back(epoch, (*batch)->step);
              EXPECT_EQ(seen(**batch), expected.at(given.back()));
            }
            EXPECT_EQ(feed->state().position, 96u);
          }
        }
        Steps wanted_steps;
        for (const auto& [key, batch] : expected) {
          if (takes[which](key.first, key.second)) wanted_steps.push_back(key);
        }
        EXPECT_EQ(given, wanted_steps);
        ASSERT_GE(filter->ready.size(), given.size());
        EXPECT_TRUE(std::equal(given.begin(), given.end(), filter->ready.begin()));
        EXPECT_TRUE(std::ranges::is_sorted(filter->asked));
        EXPECT_EQ(std::ranges::adjacent_find(filter->asked), filter->asked.end());
      }
    }
  }
}

}  // namespace
}  // namespace forebay::feed
