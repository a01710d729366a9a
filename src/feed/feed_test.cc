// The feed: batches are the same whatever prepares them, at any world size and after any restart;
// memory is limited; it can be stopped at any time.
#include "feed/feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "feed/batch/state.h"
#include "feed/batch/steps_over.h"
#include "feed/testing/feed_fixture.h"

namespace forebay::feed {
namespace {

using base::Code;
using testing::HasSubstr;

std::string digest(const Epoch& epoch) {
  base::Sha256Stream stream;
  for (const Seen& seen : epoch) {
    base::ByteVector head;
    base::ByteWriter writer(&head);
    writer.number(seen.sample);
    writer.number(seen.label);
    stream.add(head);
    stream.add(seen.image);
  }
  return base::to_hex(stream.finish());
}

TEST_F(FeedTest, BatchesAreTheOrdersSamplesPreparedOneByOne) {
  const Epoch epoch = run(options(), 1, {.epoch = 3});
  const Order expected = order(3);
  ASSERT_EQ(epoch.size(), 501u / kBatch * kBatch);
  for (uint64_t p = 0; p < epoch.size(); ++p) {
    const uint64_t sample = expected.sample_at(p);
    ASSERT_EQ(epoch[p], prepare(options(), 3, sample, sample)) << p;
  }
}

TEST_F(FeedTest, BatchesAreTheSameForEver) {
  EXPECT_EQ(digest(run(options())),
            "c5b2d40f5441b48086410eb0840f8a814be1eb6c55bfc281e19fc9cb27aa6ab7");
}

TEST_F(FeedTest, ThreadsAndWorldSizeChangeNothing) {
  const Epoch expected = run(options(1));
  for (const int threads : {2, 5}) EXPECT_EQ(run(options(threads)), expected) << threads;
  for (const int world_size : {2, 3, 8}) {
    EXPECT_EQ(run(options(), world_size), expected) << world_size;
  }
}

TEST_F(FeedTest, EvenRanksRepeatTheEpochsFirstSamplesInTheLastBatch) {
  FeedOptions wanted = options();
  wanted.drop_last = false;
  const Epoch alone = run(wanted);
  ASSERT_EQ(alone.size(), 504u);  // 501 samples, and three empty slots
  wanted.even_ranks = true;
  EXPECT_EQ(run(wanted), alone);  // one rank needs none
  const Order order =
      Order::make(
          chunk_sizes(),
          {.seed = 5, .lanes = 6, .group_bytes = 40 * FakeDataset::kSlotBytes, .repeats = 11}, 0)
          .value();
  for (const int world_size : {2, 8, 12}) {
    wanted.global_batch = kBatch;
    const Epoch epoch = run(wanted, world_size);
    const auto ranks = static_cast<uint64_t>(world_size);
    const uint64_t end = (501 + ranks - 1) / ranks * ranks;
    for (uint64_t p = 0; p < epoch.size(); ++p) {
      ASSERT_EQ(epoch[p].valid, p < end) << p;
      if (p < 501) {
        ASSERT_EQ(epoch[p], alone[p]) << p;
      } else if (p < end) {
        const uint64_t sample = order.sample_at(p);
        ASSERT_EQ(epoch[p], prepare(wanted, 0, sample, sample)) << p;
        ASSERT_EQ(sample,
                  order.sample_at(p % order.lanes() +
                                  order.lanes() * (p / order.lanes() -
                                                   order.lane_size(static_cast<uint32_t>(p % 6)))));
      }
    }
  }
}

TEST_F(FeedTest, StepsMayHaveSizesOfTheirOwn) {
  const uint64_t count = dataset_->sample_count();
  SampleList list;
  for (uint64_t sample = 0; sample < count; ++sample) list.samples.push_back(sample);
  for (uint64_t end = 0; end < count;) {
    end = std::min<uint64_t>(count, end + 1 + end % 7);
    list.step_ends.push_back(end);
  }
  const auto given = std::make_shared<const SampleList>(list);
  const auto feed = open(validation());
  for (size_t from = 0; from < list.step_ends.size(); from += 20) {
    const uint64_t begin = from == 0 ? 0 : list.step_ends[from - 1];
    ASSERT_TRUE(feed->start({.epoch = from, .position = begin}, given).ok());
    EXPECT_EQ(feed->steps(), list.step_ends.size());
    uint64_t position = begin;
    for (size_t step = from; step < list.step_ends.size(); ++step) {
      const auto batch = feed->next().value();
      ASSERT_EQ(batch->step, step);
      ASSERT_EQ(batch->valid.size(), list.largest_step());
      for (size_t slot = 0; slot < batch->valid.size(); ++slot) {
        const bool valid = position + slot < list.step_ends[step];
        ASSERT_EQ(batch->valid[slot] != 0, valid);
        ASSERT_EQ(batch->samples[slot], valid ? position + slot : kNoSample);
      }
      position = list.step_ends[step];
      ASSERT_EQ(feed->state().position, position);
    }
    EXPECT_EQ(feed->next().value(), nullptr);
  }
  EXPECT_EQ(feed->start({.position = 2}, given).code(), Code::kInvalid);  // steps end at 1, 3, …
  list.step_ends.back() = count - 1;
  const auto short_steps = std::make_shared<const SampleList>(list);
  EXPECT_EQ(feed->start({}, short_steps).code(), Code::kInvalid);
  FeedOptions dropping = validation();
  dropping.drop_last = true;
  EXPECT_EQ(open(dropping)->start({}, given).code(), Code::kInvalid);
}

TEST_F(FeedTest, ResumingAnywhereAtAnyWorldSizeGoesOnTheSame) {
  const Epoch expected = run(options(), 1, {.epoch = 1});
  for (uint64_t position = 0; position <= expected.size(); position += kBatch) {
    const int world_size = std::array{1, 2, 3, 8}[position / kBatch % 4];
    Epoch rest = run(options(), world_size, {.epoch = 1, .position = position});
    if (rest.empty()) rest.resize(position);
    EXPECT_TRUE(std::equal(rest.begin() + static_cast<ptrdiff_t>(position), rest.end(),
                           expected.begin() + static_cast<ptrdiff_t>(position), expected.end()))
        << position;
  }
}

TEST_F(FeedTest, TheNextEpochGoesOnFromTheLast) {
  const auto feed = open(options());
  FeedState state;
  for (state.epoch = 0; state.epoch < 3; ++state.epoch) {
    ASSERT_TRUE(feed->start(state).ok());
    Epoch epoch;
    while (const auto batch = feed->next().value()) copy(*batch, 0, 1, &epoch);
    EXPECT_EQ(epoch, run(options(), 1, state));
    EXPECT_EQ(feed->state().position, epoch.size());
  }
  EXPECT_EQ(feed->stats().samples, 3 * 480u);
  EXPECT_GT(feed->stats().bytes_read, 0u);
}

TEST_F(FeedTest, TheLastEpochThatHasANumberEnds) {
  const auto feed = open(options());
  FeedState state;
  state.epoch = UINT32_MAX - 1;
  for (; state.epoch <= UINT32_MAX; ++state.epoch) {
    ASSERT_TRUE(feed->start(state).ok());
    auto batch = feed->next();
    for (; batch && *batch != nullptr; batch = feed->next()) {
      EXPECT_EQ((*batch)->epoch, state.epoch);
    }
    ASSERT_TRUE(batch) << batch.error().message();
  }
  EXPECT_EQ(feed->start(state).code(), Code::kInvalid);
}

TEST_F(FeedTest, StartDropsWhatIsInFlight) {
  const auto feed = open(options());
  for (const uint64_t position : {0u, 48u, 0u, 240u, 480u, 456u}) {
    ASSERT_TRUE(feed->start({.epoch = 2, .position = position}).ok());
    const auto batch = feed->next().value();
    if (position == 480) {
      EXPECT_EQ(batch, nullptr);
    } else {
      EXPECT_EQ(batch->samples[0], order(2).sample_at(position));
    }
  }
}

TEST_F(FeedTest, ValidationCountsEverySampleOnceAtAnyWorldSize) {
  const Epoch expected = run(validation());
  for (const int world_size : {1, 2, 3, 8}) {
    const Epoch epoch = run(validation(), world_size);
    ASSERT_EQ(epoch.size(), 504u);
    for (uint64_t p = 0; p < epoch.size(); ++p) {
      EXPECT_EQ(epoch[p].valid, p < 501);
      EXPECT_EQ(epoch[p].sample, p < 501 ? p : kNoSample);
    }
    EXPECT_EQ(epoch, expected);
  }
  EXPECT_EQ(expected[503].image, base::ByteVector(kSampleBytes));
  const auto feed = open(validation());
  ASSERT_TRUE(feed->start({}).ok());
  while (feed->next().value() != nullptr) continue;
  EXPECT_EQ(feed->state().position, 501u);
  EXPECT_TRUE(feed->start(feed->state()).ok());
}

TEST_F(FeedTest, MayBeDestroyedAtAnyPoint) {
  for (int batches = 0; batches < 25; ++batches) {
    FeedOptions some = options(1 + batches % 4);
    some.prefetch = 1 + batches % 5;
    const auto feed = open(some);
    if (batches > 0) {
      ASSERT_TRUE(feed->start({}).ok());
    }
    for (int i = 1; i < batches; ++i) ASSERT_TRUE(feed->next());
  }
}

TEST_F(FeedTest, BatchesOutliveTheFeedAndAreNotOverwritten) {
  const Epoch expected = run(options());
  std::vector<std::shared_ptr<const Batch>> kept;
  {
    const auto feed = open(options());
    ASSERT_TRUE(feed->start({}).ok());
    while (auto batch = feed->next().value()) kept.push_back(std::move(batch));
  }
  Epoch epoch;
  for (const auto& batch : kept) copy(*batch, 0, 1, &epoch);
  EXPECT_EQ(epoch, expected);
}

TEST_F(FeedTest, MemoryIsRecycled) {
  const auto feed = open(options());
  std::set<const uint8_t*> memory;
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    ASSERT_TRUE(feed->start({.epoch = epoch}).ok());
    while (const auto batch = feed->next().value()) memory.insert(batch->images);
  }
  EXPECT_LE(memory.size(), 4u);
}

// With the smallest limit that start() accepts, a caller that keeps every batch gets an error, and
// the rest of the epoch after it has released them.
TEST_F(FeedTest, TheMemoryCapIsKeptAndSaysWhatHelps) {
  FeedOptions small = options();
  small.memory_bytes_max = 1000;
  const auto too_small = open(small);
  const Status status = too_small->start({});
  EXPECT_EQ(status.code(), Code::kNoMemory);
  EXPECT_THAT(status.message(), HasSubstr("what is shuffled together"));

  const Epoch expected = run(options());
  std::unique_ptr<Feed> feed;
  do {
    small.memory_bytes_max += 1000;
    feed = open(small);
  } while (!feed->start({}).ok());
  std::vector<std::shared_ptr<const Batch>> kept;
  auto batch = feed->next();
  for (; batch && *batch != nullptr; batch = feed->next()) kept.push_back(*batch);
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code(), Code::kNoMemory);
  EXPECT_THAT(batch.error().message(), HasSubstr("memory_bytes_max"));
  EXPECT_GE(kept.size(), 4u);
  Epoch epoch;
  for (const auto& held : kept) copy(*held, 0, 1, &epoch);
  kept.clear();
  while (const auto more = feed->next().value()) copy(*more, 0, 1, &epoch);
  EXPECT_EQ(epoch, expected);
}

// Reading before the first batch must not grow with the dataset, even at the smallest memory limit.
TEST_F(FeedTest, TheFirstBatchNeedsASmallPartOfAnEpoch) {
  uint64_t dataset_bytes = 0;
  for (const ChunkSize& chunk : chunk_sizes()) dataset_bytes += chunk.bytes;
  FeedOptions small = options();
  small.lanes = 1;
  small.group_bytes = 20 * FakeDataset::kSlotBytes;
  small.memory_bytes_max = 0;
  std::unique_ptr<Feed> feed;
  do {
    small.memory_bytes_max += 1000;
    feed = open(small);
  } while (!feed->start({}).ok());
  ASSERT_NE(feed->next().value(), nullptr);
  EXPECT_GT(feed->stats().bytes_read, 0u);
  EXPECT_LT(feed->stats().bytes_read, dataset_bytes / 3);
}

TEST_F(FeedTest, RefusesOptionsThatMakeNoSense) {
  const auto message = [&](auto change) {
    FeedOptions wrong = options();
    change(wrong);
    const auto feed = Feed::open(dataset_, wrong);
    return feed ? std::string() : feed.error().message();
  };
  EXPECT_THAT(message([](auto& o) { o.global_batch = 0; }), HasSubstr("global_batch"));
  EXPECT_THAT(message([](auto& o) { o.world_size = 5; }), HasSubstr("world_size"));
  EXPECT_THAT(message([](auto& o) { o.rank = 1; }), HasSubstr("rank"));
  EXPECT_THAT(message([](auto& o) { o.lanes = 0; }), HasSubstr("lanes"));
  EXPECT_THAT(message([](auto& o) { o.threads = -1; }), HasSubstr("threads"));
  EXPECT_THAT(message([](auto& o) { o.prefetch = 0; }), HasSubstr("prefetch"));
  EXPECT_THAT(message([](auto& o) { o.order = Weighted{}; }), HasSubstr("weights"));
  EXPECT_THAT(message([](auto& o) { o.transform = image::Transform{.size = {}, .crop = {}}; }),
              HasSubstr("size"));
  const auto erasing = [&](const image::RandomErasing& wrong) {
    return message([&](auto& o) { o.transform = image::Transform{.erasing = wrong}; });
  };
  EXPECT_THAT(erasing({.probability = std::nan("")}), HasSubstr("erasing probability"));
  EXPECT_THAT(erasing({.scale_min = 0.5}), HasSubstr("erasing scales"));
  EXPECT_THAT(erasing({.ratio_max = 100}), HasSubstr("erasing ratios"));
  const auto feed = open(options());
  EXPECT_EQ(feed->next().error().code(), Code::kInvalid);
  EXPECT_EQ(feed->start({.position = 25}).code(), Code::kInvalid);
  EXPECT_EQ(feed->start({.position = 504}).code(), Code::kInvalid);
}

TEST_F(FeedTest, FewerSamplesThanABatchAreNoStepWhereTheLastIsDropped) {
  FeedOptions wanted = options();
  wanted.global_batch = 600;
  const auto feed = open(wanted);
  EXPECT_EQ(feed->steps(), 0u);
  ASSERT_TRUE(feed->start({}).ok());
  EXPECT_TRUE(feed->wait_ms(0));
  EXPECT_EQ(feed->next().value(), nullptr);
}

TEST(StepsOver, TheLastStepMayEndElsewhereForOtherRanks) {
  const Steps steps{.global_batch = 8, .world_size = 4, .end = 44, .step_ends = {}};
  const uint64_t samples = 43;  // one is repeated
  const auto over = [&](const std::vector<Positions>& positions) {
    return steps_over({.position = 8, .over = positions}, steps, samples);
  };
  EXPECT_THAT(over({{16, 24}, {32, 43}}).value(), testing::ElementsAre(2, 4, 5));
  EXPECT_THAT(over({{32, 44}}).value(), testing::ElementsAre(4, 5));
  for (const Positions& wrong : {Positions{32, 42}, {32, 45}, {44, 43}, {44, 44}, {8, 16}}) {
    EXPECT_EQ(base::status_of(over({wrong})).code(), Code::kInvalid);
  }
  const std::vector<Positions> expected{{16, 24}, {32, 44}};
  EXPECT_EQ(positions_over({2, 4, 5}, steps), expected);
}

TEST(FeedStateTest, SurvivesJson) {
  FeedState state{.epoch = 3, .position = 1ull << 40, .bad = {{7, "ab12", "dog/\"1\"", "why"}}};
  EXPECT_EQ(encode_state(state).find("over"), std::string::npos);
  state.over = {{1ull << 41, 1ull << 42}, {1ull << 43, 1ull << 44}};
  const auto back = decode_state(encode_state(state)).value();
  EXPECT_EQ(back.epoch, state.epoch);
  EXPECT_EQ(back.position, state.position);
  EXPECT_EQ(back.bad, state.bad);
  EXPECT_EQ(back.over, state.over);
  for (const char* wrong :
       {"", "{}", "[]", R"({"epoch":1,"position":-1,"bad":[]})",
        R"({"epoch":1,"position":1,"bad":[{}]})", R"({"epoch":1,"position":1,"bad":[],"over":7})",
        R"({"epoch":1,"position":1,"bad":[],"over":[[8]]})",
        R"({"epoch":1,"position":1,"bad":[],"over":[[8,-9]]})"}) {
    EXPECT_EQ(decode_state(wrong).error().code(), Code::kCorrupt) << wrong;
  }
}

}  // namespace
}  // namespace forebay::feed
