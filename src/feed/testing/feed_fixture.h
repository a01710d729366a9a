// For the feed's tests: a small dataset, its epochs as values to compare, and the expected values,
// which are made without the feed.
#pragma once

#include <gtest/gtest.h>

#include <set>

#include "feed/feed.h"
#include "feed/order/order.h"
#include "feed/testing/fake_dataset.h"

namespace forebay::feed {

inline constexpr uint32_t kBatch = 24;
inline constexpr uint32_t kSize = 8;
inline constexpr size_t kSampleBytes = size_t{kSize} * kSize * 3;

// The sample at a position, in a form that can be compared.
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
    out.transform = image::Transform{.size = image::square(kSize), .crop = {}};
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
    out.transform = image::Transform{
        .size = image::square(kSize), .crop = image::CentreCrop{image::ShortSide{10}}, .flip = 0};
    out.order = Stored{};
    out.replace_bad = false;
    out.drop_last = false;
    return out;
  }
  std::unique_ptr<Feed> open(const FeedOptions& options) const {
    auto feed = Feed::open(dataset_, options);
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

  // The epoch from `from` on, of all ranks together; `bad` receives the bad samples of all ranks.
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
  // Prepares a sample without the feed. Its augmentation is drawn for the number `drawn_for`.
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

}  // namespace forebay::feed
