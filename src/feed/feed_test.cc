// feed/: the same batches whatever prepares them, at any world size, after any restart; bad
// samples; memory; stopping.
#include "feed/feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "feed/fake_dataset.h"
#include "feed/order.h"
#include "feed/state.h"
#include "io/faulty.h"

namespace forebay::feed {
namespace {

using base::Code;
using testing::HasSubstr;

constexpr uint32_t kBatch = 24;
constexpr uint32_t kSize = 8;
constexpr size_t kSampleBytes = size_t{kSize} * kSize * 3;

// What stands at a position, as one value to compare.
struct Seen {
  uint64_t sample = 0;
  int32_t label = 0;
  bool valid = false;
  base::ByteVector image = {};
  bool operator==(const Seen&) const = default;
};
using Epoch = std::vector<Seen>;  // by position

class FeedTest : public testing::Test {
 protected:
  static FeedOptions options(int threads = 2) {
    FeedOptions out;
    out.transform = image::TrainTransform{.size = kSize, .crop = {}};
    out.tensor.dtype = image::DType::kUint8;
    out.global_batch = kBatch;
    out.seed = 5;
    out.lanes = 6;
    out.group_bytes = 40 * FakeDataset::kSlotBytes;
    out.threads = threads;
    return out;
  }
  static FeedOptions validation(int threads = 2) {
    FeedOptions out = options(threads);
    out.transform = image::EvalTransform{.size = kSize, .resize = 10};
    out.shuffle = false;
    return out;
  }
  std::unique_ptr<Feed> open(const FeedOptions& options) const {
    auto feed = Feed::open(fs_, dataset_, options);
    EXPECT_TRUE(feed) << feed.error().message();
    return std::move(*feed);
  }

  static void copy(const Batch& batch, int rank, int world_size, Epoch* out) {
    for (size_t slot = 0; slot < batch.samples.size(); ++slot) {
      const size_t position =
          batch.step * kBatch + slot * static_cast<size_t>(world_size) + static_cast<size_t>(rank);
      if (out->size() <= position) out->resize(position + 1);
      const uint8_t* image = batch.images + slot * kSampleBytes;
      (*out)[position] = {batch.samples[slot], batch.labels[slot], batch.valid[slot] != 0,
                          base::ByteVector(image, image + kSampleBytes)};
    }
  }

  // The epoch from `from` on, of all ranks together; `bad` of all ranks, by sample.
  Epoch run(FeedOptions options, int world_size = 1, const FeedState& from = {},
            std::set<uint64_t>* bad = nullptr) const {
    Epoch out;
    options.world_size = world_size;
    for (options.rank = 0; options.rank < world_size; ++options.rank) {
      const auto feed = open(options);
      const Status started = feed->start(from);
      EXPECT_TRUE(started.ok()) << started.message();
      for (;;) {
        const auto batch = feed->next();
        EXPECT_TRUE(batch) << batch.error().message();
        if (!batch || *batch == nullptr) break;
        EXPECT_EQ((*batch)->epoch, from.epoch);
        copy(**batch, options.rank, world_size, &out);
      }
      if (bad == nullptr) continue;
      for (const BadSample& sample : feed->state().bad) bad->insert(sample.sample);
    }
    return out;
  }

  std::vector<ChunkSize> chunk_sizes() const {
    std::vector<ChunkSize> chunks;
    for (uint32_t i = 0; i < dataset_->chunk_count(); ++i) {
      const auto& chunk = dataset_->chunk(i);
      chunks.push_back({chunk.first_sample, chunk.samples, chunk.bytes});
    }
    return chunks;
  }
  // The order that options() gives.
  Order order(uint64_t epoch) const {
    return Order::make(chunk_sizes(),
                       {.seed = 5, .lanes = 6, .group_bytes = 40 * FakeDataset::kSlotBytes}, epoch)
        .value();
  }
  // A sample prepared as the position of sample `drawn_for` wants it, without any of the feed.
  Seen prepare(const FeedOptions& options, uint64_t epoch, uint64_t sample,
               uint64_t drawn_for) const {
    image::Preparer preparer(options.transform, options.tensor);
    Seen seen{.sample = sample, .label = static_cast<int32_t>(sample % 10), .valid = true};
    seen.image.resize(kSampleBytes);
    const base::Random random(options.seed, base::Purpose::kAugment, epoch, drawn_for);
    EXPECT_TRUE(preparer.prepare(dataset_->file(sample), random, seen.image.data()).ok());
    return seen;
  }
  // The next position of the same lane whose sample is not in `bad`.
  static uint64_t replacement(const Order& order, uint64_t position,
                              const std::set<uint64_t>& bad) {
    const uint64_t lane = position % order.lanes();
    const uint64_t size = order.lane_size(static_cast<uint32_t>(lane));
    for (uint64_t index = position / order.lanes();; ++index) {
      const uint64_t sample = order.sample_at(index % size * order.lanes() + lane);
      if (!bad.contains(sample)) return sample;
    }
  }

  io::MemoryFileSystem fs_;
  std::shared_ptr<FakeDataset> dataset_ = std::make_shared<FakeDataset>(
      fs_, std::vector<uint32_t>{40, 7, 0, 33, 64, 1, 51, 29, 38, 60, 45, 12, 57, 44, 20});
};

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

TEST_F(FeedTest, BadSamplesAreReplacedTheSameEverywhere) {
  const Order expected = order(0);
  std::set<uint64_t> bad;
  // 3 and 9, 251 and 257, 470 and 476 follow each other in a lane; 499 and 500 are past the
  // last step, and only come as replacements.
  for (const uint64_t position : {3u, 9u, 100u, 251u, 257u, 470u, 476u, 500u, 499u}) {
    const uint64_t sample = expected.sample_at(position);
    bad.insert(sample);
    position % 2 == 0 ? dataset_->damage(sample) : dataset_->make_undecodable(sample);
  }
  for (const int world_size : {1, 2, 3, 8}) {
    std::set<uint64_t> listed;
    const Epoch epoch = run(options(world_size == 1 ? 5 : 1), world_size, {}, &listed);
    ASSERT_EQ(epoch.size(), 480u);
    std::set<uint64_t> listed_expected;
    for (uint64_t p = 0; p < epoch.size(); ++p) {
      const uint64_t own = expected.sample_at(p);
      if (bad.contains(own)) listed_expected.insert(own);
      ASSERT_EQ(epoch[p], prepare(options(), 0, replacement(expected, p, bad), own)) << p;
    }
    EXPECT_EQ(listed, listed_expected);
  }
}

TEST_F(FeedTest, BadSamplesAreListedWhenTheyAreConsumedAndOnce) {
  const Order first = order(0);
  dataset_->damage(first.sample_at(30));
  dataset_->damage(first.sample_at(26));
  const auto feed = open(options());
  ASSERT_TRUE(feed->start({}).ok());
  ASSERT_TRUE(feed->next());
  EXPECT_TRUE(feed->state().bad.empty());
  ASSERT_TRUE(feed->next());
  const auto bad = feed->state().bad;
  ASSERT_EQ(bad.size(), 2u);
  EXPECT_EQ(bad[0].sample, first.sample_at(26));
  EXPECT_EQ(bad[1].sample, first.sample_at(30));
  EXPECT_EQ(bad[0].key, fmt::format("key{}", bad[0].sample));
  EXPECT_EQ(bad[0].chunk, base::to_hex(dataset_->chunk(dataset_->chunk_of(bad[0].sample)).id));
  EXPECT_THAT(bad[0].reason, HasSubstr("checksum"));
  while (feed->next().value() != nullptr) continue;
  FeedState state = feed->state();
  state.epoch = 1;
  state.position = 0;
  ASSERT_TRUE(feed->start(state).ok());
  while (feed->next().value() != nullptr) continue;
  EXPECT_EQ(feed->state().bad, bad);
}

TEST_F(FeedTest, ValidationMasksBadSamples) {
  dataset_->damage(77);
  for (const int world_size : {1, 3}) {
    std::set<uint64_t> bad;
    const Epoch epoch = run(validation(), world_size, {}, &bad);
    EXPECT_FALSE(epoch[77].valid);
    EXPECT_EQ(epoch[77].image, base::ByteVector(kSampleBytes));
    EXPECT_EQ(bad, std::set<uint64_t>{77});
  }
}

TEST_F(FeedTest, TooManyBadSamplesStopTheRun) {
  const Order first = order(0);
  for (const uint64_t position : {1u, 30u, 60u}) dataset_->damage(first.sample_at(position));
  FeedOptions limited = options();
  limited.bad_samples_max = 2;
  const auto feed = open(limited);
  ASSERT_TRUE(feed->start({}).ok());
  ASSERT_TRUE(feed->next());
  ASSERT_TRUE(feed->next());
  const auto third = feed->next();
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code(), Code::kCorrupt);
  EXPECT_THAT(third.error().message(), HasSubstr(fmt::format("key{}", first.sample_at(60))));
  EXPECT_EQ(feed->state().position, 48u);
  EXPECT_EQ(feed->state().bad.size(), 2u);
}

TEST_F(FeedTest, ATruncatedChunkLosesOnlyItsLastSamples) {
  auto& content = fs_.content(dataset_->chunk_path(4));
  content.resize(content.size() - 3 * FakeDataset::kSlotBytes);
  std::set<uint64_t> bad;
  const Epoch epoch = run(validation(), 2, {}, &bad);
  EXPECT_EQ(bad, (std::set<uint64_t>{141, 142, 143}));
  EXPECT_TRUE(epoch[140].valid);
}

TEST_F(FeedTest, ADiskThatFailsIsAnErrorAndNoBadSample) {
  for (const int64_t at : {0, 5, 17}) {
    io::FaultyFileSystem faulty(
        fs_, {.on = io::FaultyFileSystem::Fault::On::kRead, .at = at, .code = Code::kIo});
    const auto feed = Feed::open(faulty, dataset_, options()).value();
    ASSERT_TRUE(feed->start({}).ok());
    Result<std::shared_ptr<const Batch>> batch = feed->next();
    while (batch && *batch != nullptr) batch = feed->next();
    ASSERT_FALSE(batch);
    EXPECT_EQ(batch.error().code(), Code::kIo);
    EXPECT_TRUE(feed->state().bad.empty());
  }
  ASSERT_TRUE(fs_.remove(dataset_->chunk_path(4)).ok());
  const auto feed = open(validation());
  ASSERT_TRUE(feed->start({}).ok());
  Result<std::shared_ptr<const Batch>> batch = feed->next();
  while (batch && *batch != nullptr) batch = feed->next();
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code(), Code::kNotFound);
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

// With the least memory that start() takes, a caller that keeps every batch gets an error, and all
// the rest of the epoch once it lets go of them.
TEST_F(FeedTest, TheMemoryCapIsKeptAndSaysWhatHelps) {
  FeedOptions small = options();
  small.memory_bytes_max = 1000;
  const auto too_small = open(small);
  const Status status = too_small->start({});
  EXPECT_EQ(status.code(), Code::kNoMemory);
  EXPECT_THAT(status.message(), HasSubstr("group_bytes"));

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

TEST_F(FeedTest, RefusesOptionsThatMakeNoSense) {
  const auto message = [&](auto change) {
    FeedOptions wrong = options();
    change(wrong);
    const auto feed = Feed::open(fs_, dataset_, wrong);
    return feed ? std::string() : feed.error().message();
  };
  EXPECT_THAT(message([](auto& o) { o.global_batch = 0; }), HasSubstr("global_batch"));
  EXPECT_THAT(message([](auto& o) { o.world_size = 5; }), HasSubstr("world_size"));
  EXPECT_THAT(message([](auto& o) { o.rank = 1; }), HasSubstr("rank"));
  EXPECT_THAT(message([](auto& o) { o.lanes = 0; }), HasSubstr("lanes"));
  EXPECT_THAT(message([](auto& o) { o.threads = -1; }), HasSubstr("threads"));
  EXPECT_THAT(message([](auto& o) { o.prefetch = 0; }), HasSubstr("prefetch"));
  EXPECT_THAT(message([](auto& o) { o.global_batch = 600; }), HasSubstr("give a smaller batch"));
  EXPECT_THAT(message([](auto& o) { o.transform = image::TrainTransform{.size = 0, .crop = {}}; }),
              HasSubstr("size"));
  const auto feed = open(options());
  EXPECT_EQ(feed->next().error().code(), Code::kInvalid);
  EXPECT_EQ(feed->start({.position = 25}).code(), Code::kInvalid);
  EXPECT_EQ(feed->start({.position = 504}).code(), Code::kInvalid);
}

TEST(FeedStateTest, SurvivesJson) {
  const FeedState state{
      .epoch = 3, .position = 1ull << 40, .bad = {{7, "ab12", "dog/\"1\"", "why"}}};
  const auto back = decode_state(encode_state(state)).value();
  EXPECT_EQ(back.epoch, state.epoch);
  EXPECT_EQ(back.position, state.position);
  EXPECT_EQ(back.bad, state.bad);
  for (const char* wrong : {"", "{}", "[]", R"({"epoch":1,"position":-1,"bad":[]})",
                            R"({"epoch":1,"position":1,"bad":[{}]})"}) {
    EXPECT_EQ(decode_state(wrong).error().code(), Code::kCorrupt) << wrong;
  }
}

}  // namespace
}  // namespace forebay::feed
