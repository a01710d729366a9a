// Files, and images in their own sizes, under memory_bytes_max: what is counted, who waits, and
// that nobody waits forever.
#include <gmock/gmock.h>

#include <deque>
#include <set>
#include <thread>

#include "feed/make/batch_pool.h"
#include "feed/testing/feed_fixture.h"
#include "image/codec/decode.h"

namespace forebay::feed {
namespace {

using base::Code;

using Held = std::deque<std::shared_ptr<const Batch>>;

uint64_t bytes_of(const Batch& batch) {
  uint64_t bytes = batch.images_bytes;
  for (const image::OwnSize& image : batch.whole) bytes += image.bytes.capacity();
  for (const base::ByteVector& file : batch.files) bytes += file.capacity();
  return bytes;
}

class MemoryTest : public FeedTest {
 protected:
  // Options for whole images and files, with about one group in memory at a time.
  static FeedOptions wanted(Images images = Images::kWhole) {
    FeedOptions out = options();
    out.images = images;
    out.files = true;
    out.lanes = 1;
    out.group_bytes = 8 * FakeDataset::kSlotBytes;
    out.prefetch = 8;
    out.next_epoch = false;
    return out;
  }
  // The fewest bytes that chunks take: the smallest limit with which a feed without tensors begins.
  uint64_t chunk_bytes(FeedOptions options) const {
    options.images = Images::kNone;
    for (options.memory_bytes_max = FakeDataset::kSlotBytes;;
         options.memory_bytes_max += FakeDataset::kSlotBytes / 8) {
      if (open(options)->start({}).ok()) return options.memory_bytes_max;
    }
  }
  // The limit that leaves this many bytes to batches: chunks take half of what they do not need.
  uint64_t limit_for(const FeedOptions& options, uint64_t batch_bytes) const {
    return chunk_bytes(options) + 2 * batch_bytes;
  }
  // The samples that a consumer gets in an epoch while it holds `held_max` batches and the newest.
  std::vector<uint64_t> run_epoch(Feed& feed, size_t held_max, uint64_t* largest = nullptr) {
    std::vector<uint64_t> samples;
    Held held;
    while (true) {
      while (held.size() > held_max) held.pop_front();
      auto batch = feed.next();
      EXPECT_TRUE(batch) << batch.error().message();
      if (!batch || *batch == nullptr) return samples;
      samples.insert(samples.end(), (*batch)->samples.begin(), (*batch)->samples.end());
      if (largest != nullptr) *largest = std::max(*largest, bytes_of(**batch));
      held.push_back(std::move(*batch));
    }
  }
};

TEST_F(MemoryTest, BatchesAheadWaitForRoom) {
  for (const Images images : {Images::kWhole, Images::kNone, Images::kTensor}) {
    FeedOptions options = wanted(images);
    uint64_t largest = 0;
    const auto roomy = open(options);
    ASSERT_TRUE(roomy->start({}).ok());
    const auto expected = run_epoch(*roomy, 0, &largest);
    // Memory for the tensors of all batches that may be needed is set aside.
    const uint64_t tensors = images == Images::kTensor ? 10 * kBatch * kSampleBytes : 0;
    const uint64_t for_batches = tensors + 2 * largest;
    for (const int threads : {1, 3}) {
      options.threads = threads;
      options.memory_bytes_max = limit_for(options, for_batches);
      const auto tight = open(options);
      ASSERT_TRUE(tight->start({}).ok());
      EXPECT_EQ(run_epoch(*tight, 1), expected);
      EXPECT_LE(tight->stats().batch_bytes_peak, 2 * for_batches);
      EXPECT_GE(tight->stats().batch_bytes_peak, largest);
    }
  }
}

// With enough room all batches ahead are prepared; with little room, as many as fit.
TEST_F(MemoryTest, AsMuchIsMadeAheadAsFits) {
  FeedOptions options = wanted();
  uint64_t largest = 0;
  const auto first = open(options);
  ASSERT_TRUE(first->start({}).ok());
  run_epoch(*first, 0, &largest);
  const auto roomy = open(options);
  ASSERT_TRUE(roomy->start({}).ok());
  while (roomy->stats().batch_bytes_peak < 4 * largest) std::this_thread::yield();
  options.memory_bytes_max = limit_for(options, largest);
  const auto tight = open(options);
  ASSERT_TRUE(tight->start({}).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(tight->stats().batch_bytes_peak, 2 * largest);
  EXPECT_TRUE(tight->next());
}

TEST_F(MemoryTest, WhoHoldsTooMuchIsToldAndMayGoOn) {
  FeedOptions options = wanted();
  uint64_t largest = 0;
  const auto roomy = open(options);
  ASSERT_TRUE(roomy->start({}).ok());
  const auto expected = run_epoch(*roomy, 0, &largest);
  options.memory_bytes_max = limit_for(options, 2 * largest);
  const auto feed = open(options);
  ASSERT_TRUE(feed->start({}).ok());
  std::vector<uint64_t> samples;
  Held held;
  int refused = 0;
  while (true) {
    auto batch = feed->next();
    if (!batch) {
      ++refused;
      ASSERT_EQ(batch.error().code(), Code::kNoMemory);
      EXPECT_THAT(batch.error().message(), testing::HasSubstr("memory_bytes_max"));
      ASSERT_GT(held.size(), 1u);
      EXPECT_EQ(feed->next().error().code(), Code::kNoMemory);  // the error comes again
      EXPECT_TRUE(feed->wait_ms(0));
      held.pop_front();
      held.pop_front();
      continue;
    }
    if (*batch == nullptr) break;
    samples.insert(samples.end(), (*batch)->samples.begin(), (*batch)->samples.end());
    held.push_back(std::move(*batch));
  }
  EXPECT_EQ(samples, expected);
  EXPECT_GT(refused, 3);
  EXPECT_LE(feed->stats().batch_bytes_peak, 4 * largest);
}

TEST_F(MemoryTest, ABatchThatNeverFitsIsSaidSo) {
  FeedOptions options = wanted();
  options.memory_bytes_max = chunk_bytes(options) + 1000;
  const auto feed = open(options);
  ASSERT_TRUE(feed->start({}).ok());
  for (int i = 0; i < 2; ++i) {
    const auto batch = feed->next();
    ASSERT_FALSE(batch);
    EXPECT_EQ(batch.error().code(), Code::kNoMemory);
    EXPECT_THAT(batch.error().message(), testing::HasSubstr("memory_bytes_max"));
  }
}

// A global batch of a million samples would take 200 MB each, but no epoch fills it.
TEST_F(MemoryTest, SlotsThatNoSampleFillsTakeNoMemory) {
  const uint64_t count = dataset_->sample_count();
  const auto list = std::make_shared<SampleList>();
  for (uint64_t i = 0; i < 2 * count; ++i) {
    list->samples.push_back(i % count);
    list->drawn_for.push_back(i);
  }
  for (const int world_size : {1, 3, 8}) {
    for (const bool even : {false, true}) {
      for (const auto& listed : {std::shared_ptr<const SampleList>(), Listed(list)}) {
        FeedOptions options = validation();
        options.world_size = world_size;
        options.global_batch = base::kBatchMax - base::kBatchMax % 24;  // for any of the ranks
        options.even_ranks = even;
        const uint64_t samples = listed == nullptr ? count : 2 * count;
        const auto ranks = static_cast<uint64_t>(world_size);
        const uint64_t slots = (samples + ranks - 1) / ranks;
        options.memory_bytes_max = chunk_bytes(options) + 10 * slots * kSampleBytes;
        std::multiset<uint64_t> seen;
        for (options.rank = 0; options.rank < world_size; ++options.rank) {
          const auto feed = open(options);
          const Status started = feed->start({}, listed);
          ASSERT_TRUE(started.ok()) << started.message();
          const auto batch = feed->next().value();
          ASSERT_NE(batch, nullptr);
          EXPECT_EQ(batch->samples.size(), slots);
          EXPECT_EQ(batch->images_bytes, slots * kSampleBytes);
          for (size_t slot = 0; slot < slots; ++slot) {
            if (batch->valid[slot] != 0) seen.insert(batch->samples[slot]);
          }
          EXPECT_EQ(feed->next().value(), nullptr);
        }
        EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), count);
        EXPECT_EQ(seen.size(), even ? slots * ranks : samples);
      }
    }
  }
}

// A consumer on its own thread releases batches late.
TEST_F(MemoryTest, RoomThatComesLateIsUsed) {
  FeedOptions options = wanted();
  uint64_t largest = 0;
  const auto roomy = open(options);
  ASSERT_TRUE(roomy->start({}).ok());
  const auto expected = run_epoch(*roomy, 0, &largest);
  options.memory_bytes_max = limit_for(options, largest);
  options.threads = 3;
  const auto feed = open(options);
  ASSERT_TRUE(feed->start({}).ok());
  std::vector<uint64_t> samples;
  while (true) {
    const auto batch = feed->next();
    ASSERT_TRUE(batch) << batch.error().message();
    if (*batch == nullptr) break;
    samples.insert(samples.end(), (*batch)->samples.begin(), (*batch)->samples.end());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(samples, expected);
}

TEST_F(MemoryTest, ReplacementsAreCounted) {
  FeedOptions options = wanted();
  for (uint64_t sample = 0; sample < 40; sample += 4) dataset_->make_undecodable(sample);
  const auto feed = open(options);
  ASSERT_TRUE(feed->start({}).ok());
  Held held;
  uint64_t bytes = 0;
  while (held.size() < 8) {
    held.push_back(*feed->next());
    bytes += bytes_of(*held.back());
  }
  EXPECT_GE(feed->stats().batch_bytes_peak, bytes);
}

TEST(BatchPool, BlocksReserveInTheirOrder) {
  BatchPool::Shape shape;
  shape.samples = 1;
  shape.files = true;
  const auto pool = std::make_shared<BatchPool>(shape, 1, 100);
  auto first = pool->take();
  auto second = pool->take();
  std::atomic<int> shortages = 0;
  const auto told = [&] { ++shortages; };
  std::thread later([&] {
    EXPECT_TRUE(pool->reserve(*second, 1, 30, told).ok());  // once `first` is gone
    pool->end_block(1);
    EXPECT_EQ(pool->reserve(*second, 2, 80, told).code(), Code::kCancelled);
  });
  EXPECT_TRUE(pool->reserve(*first, 0, 80, told).ok());
  EXPECT_FALSE(pool->blocks_ended(1));
  pool->end_block(0);
  while (shortages == 0) std::this_thread::yield();
  const auto shortage = pool->shortage();
  ASSERT_TRUE(shortage);
  EXPECT_EQ(shortage->block, 1u);
  EXPECT_EQ(shortage->used, 80u);
  first.reset();
  while (!pool->blocks_ended(2)) std::this_thread::yield();
  EXPECT_EQ(pool->bytes_peak(), 80u);
  while (shortages == 1) std::this_thread::yield();
  pool->stop();
  later.join();
}

}  // namespace
}  // namespace forebay::feed
