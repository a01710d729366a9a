// Several threads begin epochs, take batches and look at statistics at the same time.
#include "feed/shared_feed.h"

#include <thread>

#include "feed/testing/feed_fixture.h"

namespace forebay::feed {
namespace {

using base::Code;

class SharedFeedTest : public FeedTest {
 protected:
  // An epoch's samples by position; fewer if another thread ended it.
  static std::vector<uint64_t> take_all(SharedFeed& feed, uint64_t epoch, bool* ended) {
    std::vector<uint64_t> samples;
    const auto turn = feed.start({.epoch = epoch, .position = 0});
    EXPECT_TRUE(turn) << turn.error().message();
    for (*ended = false; turn;) {
      const auto ready = feed.wait_ms(*turn, 10);
      if (ready && !*ready) continue;
      const auto taken = feed.next(*turn);
      if (!taken) {
        EXPECT_EQ(taken.error().code(), Code::kCancelled) << taken.error().message();
        *ended = true;
        break;
      }
      if (taken->batch == nullptr) break;
      EXPECT_EQ(taken->batch->epoch, epoch);
      samples.insert(samples.end(), taken->batch->samples.begin(), taken->batch->samples.end());
    }
    return samples;
  }
};

TEST_F(SharedFeedTest, EpochsOfManyThreadsAreWholeOrEndedAndNeverMixed) {
  constexpr uint64_t kEpochs = 4;
  std::vector<std::vector<uint64_t>> expected;
  SharedFeed feed(open(options()));
  bool ended = false;
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    expected.push_back(take_all(feed, epoch, &ended));
    ASSERT_FALSE(ended);
  }
  std::atomic<int> whole = 0;
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t round = 0; round < 50; ++round) {
        const uint64_t epoch = (thread + round) % kEpochs;
        bool over = false;
        std::vector<uint64_t> got = take_all(feed, epoch, &over);
        std::vector<uint64_t> want = expected[epoch];
        if (over) want.resize(got.size());
        EXPECT_EQ(got, want);
        whole += over ? 0 : 1;
      }
    });
  }
  std::thread onlooker([&] {
    for (int i = 0; i < 200; ++i) {
      feed.trace().start();
      EXPECT_GE(feed.stats().bytes_read, 0u);
      feed.trace().stop();
    }
  });
  for (std::thread& thread : threads) thread.join();
  onlooker.join();
  EXPECT_GT(whole, 0);  // the last one at least
}

TEST_F(SharedFeedTest, ATurnThatIsOverGivesNothing) {
  SharedFeed feed(open(options()));
  const SharedFeed::Turn first = feed.start({}).value();
  EXPECT_TRUE(feed.next(first));
  const SharedFeed::Turn second = feed.start({.epoch = 1, .position = 0}).value();
  EXPECT_TRUE(feed.is_over(first));
  EXPECT_EQ(feed.next(first).error().code(), Code::kCancelled);
  EXPECT_EQ(feed.wait_ms(first, 0).error().code(), Code::kCancelled);
  feed.end(first);  // changes nothing for the second
  const auto taken = feed.next(second);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->state.position, kBatch);
  feed.end(second);
  EXPECT_EQ(feed.next(second).error().code(), Code::kCancelled);
}

}  // namespace
}  // namespace forebay::feed
