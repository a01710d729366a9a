// The order: equal to an independent implementation's, and what must hold of any order.
#include "feed/order/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "base/random.h"

namespace forebay::feed {
namespace {

constexpr uint64_t kSlot = 2048;

std::vector<ChunkSize> make_chunks(const std::vector<uint32_t>& samples) {
  std::vector<ChunkSize> chunks;
  uint64_t first = 0;
  for (const uint32_t count : samples) {
    chunks.push_back({.first_sample = first, .samples = count, .bytes = count * kSlot});
    first += count;
  }
  return chunks;
}

std::vector<uint64_t> all_samples(const Order& order, uint64_t repeats = 0) {
  std::vector<uint64_t> samples;
  for (uint64_t p = 0; p < order.size() + repeats; ++p) samples.push_back(order.sample_at(p));
  EXPECT_EQ(order.samples(order.size() + repeats), samples);
  return samples;
}

bool is_permutation(std::vector<uint64_t> samples) {
  std::ranges::sort(samples);
  for (uint64_t i = 0; i < samples.size(); ++i) {
    if (samples[i] != i) return false;
  }
  return true;
}

// The file is written by tests/golden/feed_order.py.
TEST(OrderTest, EqualsTheIndependentOne) {
  const auto chunks = make_chunks({40, 7, 0, 33, 64, 1, 51, 29, 38, 60, 45, 12, 57, 44, 20});
  std::ifstream file(FOREBAY_GOLDEN_DIR "/feed_order.txt");
  int cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    std::istringstream in(line);
    OrderOptions options;
    uint64_t epoch = 0;
    std::string colon;
    in >> options.seed >> epoch >> options.lanes >> options.group_bytes >> options.repeats >> colon;
    std::vector<uint64_t> expected;
    for (uint64_t sample = 0; in >> sample;) expected.push_back(sample);
    const Order order = Order::make(chunks, options, epoch).value();
    EXPECT_EQ(all_samples(order, options.repeats), expected) << cases;
  }
  EXPECT_EQ(cases, 9);
}

TEST(OrderTest, HoldsItsPropertiesOnRandomDatasets) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    base::Random random(seed, base::Purpose::kTest);
    std::vector<uint32_t> samples(1 + random.below(20));
    for (uint32_t& count : samples) count = static_cast<uint32_t>(random.below(60));
    samples[0] += 1;
    const auto chunks = make_chunks(samples);
    const OrderOptions options{.seed = seed,
                               .lanes = static_cast<uint32_t>(1 + random.below(12)),
                               .group_bytes = 1 + random.below(100) * kSlot};
    const Order order = Order::make(chunks, options, 1).value();
    EXPECT_EQ(order.size(), std::accumulate(samples.begin(), samples.end(), 0u));
    EXPECT_TRUE(is_permutation(all_samples(order)));

    const uint64_t bytes = order.size() * kSlot;
    const uint64_t budget = std::max(options.group_bytes, bytes / chunks.size());
    std::vector<uint64_t> lane_samples(order.lanes());
    for (const Group& group : order.groups()) {
      EXPECT_EQ(group.first_index, lane_samples[group.lane]);
      lane_samples[group.lane] += group.count;
      EXPECT_LE(group.count * kSlot, std::max(budget, kSlot));
      if (group.number == 0) {
        EXPECT_LE(group.count * kSlot, std::max(budget / order.lanes() * (group.lane + 1), kSlot));
      }
      uint64_t in_stretches = 0;
      for (const Stretch& stretch : order.stretches(group)) {
        EXPECT_EQ(stretch.before, in_stretches);
        in_stretches += stretch.count;
        EXPECT_GE(stretch.first_sample, chunks[stretch.chunk].first_sample);
        EXPECT_LE(stretch.first_sample + stretch.count,
                  chunks[stretch.chunk].first_sample + chunks[stretch.chunk].samples);
      }
      EXPECT_EQ(in_stretches, group.count);
    }
    for (uint32_t lane = 0; lane < order.lanes(); ++lane) {
      EXPECT_EQ(lane_samples[lane], order.lane_size(lane));
      EXPECT_EQ(order.lane_size(lane), (order.size() - lane + order.lanes() - 1) / order.lanes());
    }
  }
}

TEST(OrderTest, DiffersBetweenEpochsAndSeeds) {
  const auto chunks = make_chunks({50, 50, 50, 50});
  const auto samples_of = [&](uint64_t seed, uint64_t epoch) {
    return all_samples(Order::make(chunks, {.seed = seed}, epoch).value());
  };
  EXPECT_EQ(samples_of(1, 0), samples_of(1, 0));
  EXPECT_NE(samples_of(1, 0), samples_of(1, 1));
  EXPECT_NE(samples_of(1, 0), samples_of(2, 0));
}

TEST(OrderTest, ValidationIsStorageOrder) {
  const auto chunks = make_chunks({0, 5, 0, 9, 1});
  // Groups are whole chunks, as many as fit group_bytes.
  const std::map<uint64_t, size_t> groups_by_bytes = {{1, 3}, {10 * kSlot, 2}, {1 << 20, 1}};
  for (const auto& [group_bytes, groups] : groups_by_bytes) {
    const Order order =
        Order::make(chunks, {.shuffle = false, .group_bytes = group_bytes}, 0).value();
    EXPECT_EQ(order.lanes(), 1u);
    for (uint64_t p = 0; p < order.size(); ++p) EXPECT_EQ(order.sample_at(p), p);
    EXPECT_EQ(order.groups().size(), groups);
  }
}

TEST(OrderTest, AnEmptyDatasetHasAnEmptyOrder) {
  EXPECT_EQ(Order::make({}, {}, 0).value().size(), 0u);
  EXPECT_EQ(Order::make({}, {.shuffle = false}, 0).value().size(), 0u);
}

TEST(OrderTest, IsReadyAtOnceForMillionsOfSamples) {
  std::vector<ChunkSize> chunks;
  for (uint64_t i = 0; i < 2300; ++i) {
    chunks.push_back({.first_sample = i * 557, .samples = 557, .bytes = 64'000'000});
  }
  const Order order = Order::make(chunks, {}, 0).value();
  std::set<uint64_t> samples;
  for (uint64_t p = 0; p < 256; ++p) samples.insert(order.sample_at(p));
  EXPECT_EQ(samples.size(), 256u);
}

}  // namespace
}  // namespace forebay::feed
