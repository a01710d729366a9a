// Epochs whose samples are chosen, and targets: prep servers get the tables from the host, and the
// batches are the same as those of a feed without prep servers.
#include "prep/testing/prep_fixture.h"

namespace forebay::prep {
namespace {

using feed::SampleList;
using feed::SeenBatch;

class ListsTest : public PrepTest {
 protected:
  static std::shared_ptr<const SampleList> list_of(uint64_t seed, uint64_t count) {
    base::Random random(seed, base::Purpose::kTest);
    auto out = std::make_shared<SampleList>();
    for (uint64_t i = 0; i < count; ++i) {
      out->samples.push_back(random.below(96));
      out->drawn_for.push_back(i);
    }
    return out;
  }
  // The rest of an epoch from a step on.
  static std::vector<SeenBatch> run(feed::Feed& feed, uint64_t epoch, uint64_t step,
                                    const std::shared_ptr<const SampleList>& list) {
    const Status started =
        feed.start({.epoch = epoch, .position = step * feed::kRemoteBatch}, list);
    EXPECT_TRUE(started.ok()) << started.message();
    return rest(feed);
  }
  static void expect_no_trouble(const AssistedFeed& feed) {
    for (const ServerStats& did : feed.prep_stats().servers) {
      EXPECT_TRUE(did.is_up);
      EXPECT_EQ(did.trouble, "");
    }
  }
  const std::unique_ptr<feed::Feed> plain_ = start(dataset(*fs_), options());
};

TEST_F(ListsTest, EpochsOfListsAreShared) {
  const auto one = serve();
  const auto other = serve();
  const auto feed = open_with({.servers = {url(*one), url(*other)}});
  uint64_t before = 0;
  uint64_t of_lists = 0;
  for (uint64_t epoch = 0; epoch < 12 || of_lists <= 10; ++epoch) {
    ASSERT_LT(epoch, 100u);
    SCOPED_TRACE(epoch);
    // Lists of different lengths, which may end within a batch, and epochs without a list.
    const auto list = epoch % 4 == 3 ? nullptr : list_of(epoch, epoch % 2 == 0 ? 400 : 203);
    EXPECT_EQ(run(*feed, epoch, 0, list), run(*plain_, epoch, 0, list));
    EXPECT_EQ(feed->state().position, plain_->state().position);
    if (epoch % 4 != 3) of_lists += from_servers(*feed) - before;
    before = from_servers(*feed);
  }
  expect_no_trouble(*feed);
}

TEST_F(ListsTest, ListsBeginAnywhereAndAreReplaced) {
  const auto server = serve();
  const auto feed = open_with({.servers = {url(*server)}});
  for (uint64_t seed = 0; seed < 6 || from_servers(*feed) == 0; ++seed) {
    ASSERT_LT(seed, 100u);
    SCOPED_TRACE(seed);
    const auto left = list_of(seed, 160);
    ASSERT_TRUE(feed->start({.epoch = 5}, left).ok());
    const auto expected = run(*plain_, 5, 0, left);
    for (uint64_t step = 0; step < seed; ++step) {
      const auto batch = feed->next();
      ASSERT_TRUE(batch) << batch.error().message();
      EXPECT_EQ(seen(**batch), expected[step]);
    }
    // Now the same epoch has other samples.
    const auto list = list_of(100 + seed, 160);
    EXPECT_EQ(run(*feed, 5, seed, list), run(*plain_, 5, seed, list));
  }
  expect_no_trouble(*feed);
}

// Some samplers give the same numbers in each epoch.
TEST_F(ListsTest, TheSameListIsAnotherOneInAnotherEpoch) {
  const auto server = serve();
  const auto feed = open_with({.servers = {url(*server)}});
  const auto list = list_of(1, 320);
  for (uint64_t epoch = 0; epoch < 8 || from_servers(*feed) == 0; ++epoch) {
    ASSERT_LT(epoch, 100u);
    EXPECT_EQ(run(*feed, epoch, 0, list), run(*plain_, epoch, 0, list)) << epoch;
  }
  expect_no_trouble(*feed);
}

TEST_F(ListsTest, ListsThatFollowEachOtherAtOnceAreNotMixedUp) {
  const auto server = serve();
  const auto feed = open_with({.servers = {url(*server)}});
  for (uint64_t turn = 0; turn < 8 || from_servers(*feed) == 0; ++turn) {
    ASSERT_LT(turn, 100u);
    SCOPED_TRACE(turn);
    const auto one = list_of(turn, 160);
    const auto two = list_of(100 + turn, 160);
    for (const auto& list : {one, two, list_of(200 + turn, 160), turn % 2 == 0 ? one : two}) {
      ASSERT_TRUE(feed->start({.epoch = 1}, list).ok());
    }
    EXPECT_EQ(rest(*feed), run(*plain_, 1, 0, turn % 2 == 0 ? one : two));
  }
  expect_no_trouble(*feed);
}

TEST_F(ListsTest, ASideThatIsStartedAgainGetsTheListAgain) {
  auto server = serve();
  const uint16_t port = server->port();
  const auto feed = open_with({.servers = {url(*server)}});
  const auto list = list_of(1, 400);
  const auto expected = run(*plain_, 0, 0, list);
  uint64_t before = 0;  // steps that the server had made when it was started again
  for (int turn = 0; turn < 60; ++turn) {
    ASSERT_TRUE(feed->start({}, list).ok());
    for (size_t step = 0; step < expected.size(); ++step) {
      const auto batch = feed->next();
      ASSERT_TRUE(batch) << batch.error().message();
      EXPECT_EQ(seen(**batch), expected[step]);
      if (before > 0 || from_servers(*feed) < 5 || step != 20) continue;
      before = from_servers(*feed);
      server.reset();
      server = serve({.port = port});
    }
    if (before > 0 && from_servers(*feed) > before + 5) return;
  }
  FAIL() << before << " steps before, " << from_servers(*feed) << " in all";
}

TEST_F(ListsTest, WhatTheHostMustPrepareAloneItDoes) {
  const auto server = serve();
  const auto steps = std::make_shared<SampleList>(*list_of(1, 20));
  steps->step_ends = {3, 8, 20};
  feed::FeedOptions whole = options();
  whole.drop_last = false;
  const auto plain = start(dataset(*fs_), whole);
  const auto feed = AssistedFeed::open(dataset(*fs_), whole, {.servers = {url(*server)}}).value();
  EXPECT_EQ(run(*feed, 0, 0, steps), run(*plain, 0, 0, steps));
  const auto any =
      AssistedFeed::open(dataset(*fs_), whole, {.servers = {url(*server)}, .any_order = true})
          .value();
  const auto list = list_of(2, 100);
  EXPECT_EQ(run(*any, 0, 0, list), run(*plain, 0, 0, list));
  EXPECT_EQ(from_servers(*feed) + from_servers(*any), 0u);
  const auto wrong = std::make_shared<SampleList>(*list);
  wrong->samples[7] = 96;
  EXPECT_EQ(feed->start({}, wrong).code(), base::Code::kInvalid);
}

TEST_F(ListsTest, SamplesAreDrawnByWeights) {
  std::vector<double> weights(96);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<double>(i % 5);
  feed::FeedOptions drawn = options();
  drawn.order = feed::Weighted{.weights = std::make_shared<const feed::SampleWeights>(
                                   feed::SampleWeights::make(weights).value()),
                               .samples = 320};
  const auto expected = epochs(*start(dataset(*fs_), drawn), 0, 4);
  const auto server = serve();
  const auto feed = AssistedFeed::open(dataset(*fs_), drawn, {.servers = {url(*server)}}).value();
  EXPECT_EQ(epochs(*feed, 0, 4), expected);
  go_on_until(*feed, 4, [&] { return from_servers(*feed) > 0; });
  EXPECT_EQ(base::status_of(AssistedFeed::open(dataset(*fs_), drawn,
                                               {.servers = {url(*server)}, .any_order = true}))
                .code(),
            base::Code::kInvalid);
}

// The host has so little memory for steps out of turn that it cannot compare the batches it
// receives. If such a step is needed, there may be an error, but nothing waits forever.
TEST_F(ListsTest, BatchesThatCannotBeComparedAreUsed) {
  feed::FeedOptions wanted = options();
  wanted.files = true;
  const auto expected = epochs(*start(dataset(*fs_), wanted), 0, 1);
  const auto server = serve();
  uint64_t not_compared = 0;
  for (uint64_t turn = 0; turn < 4 || not_compared == 0; ++turn) {
    ASSERT_LT(turn, 100u);
    wanted.memory_bytes_max = 10'000'000 - 500'000 * (turn % 4);
    const auto feed =
        AssistedFeed::open(dataset(*fs_), wanted, {.servers = {url(*server)}}).value();
    ASSERT_TRUE(feed->start({}).ok());
    for (const SeenBatch& one : expected) {
      const auto batch = feed->next();
      if (!batch) {
        EXPECT_EQ(batch.error().code(), base::Code::kNoMemory);
        break;
      }
      EXPECT_EQ(seen(**batch), one);
    }
    const std::string trouble = feed->prep_stats().servers[0].trouble;
    not_compared += trouble.find("could not be compared") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(not_compared, 0u);
}

// The batches and targets that a feed gives.
struct SeenTargets {
  std::vector<SeenBatch> batches;
  std::vector<image::Bounds> boxes;
  base::ByteVector masks;
  bool operator==(const SeenTargets&) const = default;
};

TEST_F(ListsTest, BoxesAndMasksMoveWithImages) {
  auto targets = std::make_shared<feed::Targets>();
  targets->outlines.emplace();
  base::Random random(1, base::Purpose::kTest);
  for (uint64_t sample = 0; sample <= 96; ++sample) {
    targets->first.push_back(targets->boxes.size());
    for (uint64_t i = random.below(4); sample < 96 && i > 0; --i) {
      const auto left = static_cast<float>(random.below(200));
      targets->boxes.push_back({left, left / 2, left + 50, left / 2 + 30});
    }
  }
  for (const image::Bounds& box : targets->boxes) {
    feed::Outlines& outlines = *targets->outlines;
    outlines.first_part.push_back(outlines.is_runs.size());
    outlines.first_number.push_back(outlines.numbers.size());
    outlines.is_runs.push_back(0);
    for (const float number : {box.left, box.top, box.right, box.top, box.right, box.bottom}) {
      outlines.numbers.push_back(static_cast<int32_t>(5 * number));
    }
  }
  targets->outlines->first_part.push_back(targets->outlines->is_runs.size());
  targets->outlines->first_number.push_back(targets->outlines->numbers.size());
  feed::FeedOptions wanted = options();
  wanted.targets = targets;
  const auto see = [](feed::Feed& feed) {
    SeenTargets out;
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      EXPECT_TRUE(feed.start({.epoch = epoch}).ok());
      for (;;) {
        const auto batch = feed.next();
        EXPECT_TRUE(batch) << batch.error().message();
        if (!batch || *batch == nullptr) break;
        out.batches.push_back(seen(**batch));
        for (const feed::SampleTargets& one : (*batch)->targets) {
          out.boxes.insert(out.boxes.end(), one.objects.boxes.begin(), one.objects.boxes.end());
          out.masks.insert(out.masks.end(), one.masks.bytes.begin(), one.masks.bytes.end());
        }
      }
    }
    return out;
  };
  const SeenTargets expected = see(*start(dataset(*fs_), wanted));
  EXPECT_GT(expected.boxes.size(), 50u);
  EXPECT_GT(std::ranges::count(expected.masks, 1), 1000);
  const auto server = serve();
  const auto feed = AssistedFeed::open(dataset(*fs_), wanted, {.servers = {url(*server)}}).value();
  EXPECT_TRUE(see(*feed) == expected);
  go_on_until(*feed, 3, [&] { return from_servers(*feed) > 0; });
}

}  // namespace
}  // namespace forebay::prep
