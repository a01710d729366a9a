// Orders from every source, in particular from lists: what stands where, and what is read together.
#include "feed/order/order_source.h"

#include <gmock/gmock.h>

#include <array>

#include "base/limits.h"
#include "base/random.h"
#include "feed/testing/feed_fixture.h"

namespace forebay::feed {
namespace {

using base::Code;
using testing::ElementsAre;
using testing::HasSubstr;

class OrderSourceTest : public FeedTest {
 protected:
  Order made(const OrderSource& source, const OrderOptions& options = {}, uint64_t epoch = 0) {
    return make_order(*dataset_, source, options, epoch).value();
  }
  static Listed listed(std::vector<uint64_t> samples) {
    return std::make_shared<const SampleList>(
        SampleList{.samples = std::move(samples), .drawn_for = {}, .step_ends = {}});
  }
  // Expects groups and stretches to have the same samples as the positions.
  void check_groups(const Order& order, uint64_t end) const {
    uint64_t index = 0;
    for (const Group& group : order.groups()) {
      ASSERT_EQ(group.first_index, index);
      uint64_t in_stretches = 0;
      for (size_t number = 0; number < group.stretch_count; ++number) {
        const Stretch& stretch = order.stretches(group)[number];
        ASSERT_EQ(stretch.before, in_stretches);
        uint64_t end_of_last = 0;
        for (uint32_t i = 0; i < stretch.count; ++i) {
          const Order::GroupSample place = order.place(group, {}, in_stretches + i);
          ASSERT_EQ(place.stretch, number);
          ASSERT_EQ(place.sample, order.sample_at(index + in_stretches + i));
          const store::Location location = dataset_->location(place.sample);
          ASSERT_EQ(location.chunk, stretch.chunk);
          ASSERT_GE(location.offset, end_of_last);
          end_of_last = location.offset + location.length;
          if (i == 0) {
            ASSERT_EQ(stretch.first_sample, place.sample);
          }
          if (i + 1 == stretch.count) {
            ASSERT_EQ(stretch.last_sample, place.sample);
          }
        }
        in_stretches += stretch.count;
      }
      ASSERT_EQ(in_stretches, group.count);
      index += group.count;
    }
    EXPECT_EQ(index, end);
  }
};

TEST_F(OrderSourceTest, WholeDatasetsHaveTheOrderOfTheirChunks) {
  const OrderOptions wanted{.seed = 5, .lanes = 6, .group_bytes = 40 * FakeDataset::kSlotBytes};
  const Order shuffled = made(Shuffled{}, wanted, 3);
  const Order stored = made(Stored{}, wanted, 3);
  const Order expected = order(3);
  ASSERT_EQ(shuffled.size(), expected.size());
  for (uint64_t p = 0; p < expected.size(); ++p) {
    ASSERT_EQ(shuffled.sample_at(p), expected.sample_at(p));
    ASSERT_EQ(stored.sample_at(p), p);
    ASSERT_EQ(shuffled.drawn_for(p, shuffled.sample_at(p)), shuffled.sample_at(p));
  }
}

TEST_F(OrderSourceTest, AListStandsAsItWasGiven) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    base::Random random(seed, base::Purpose::kTest);
    SampleList list;
    uint64_t sample = 0;
    for (uint64_t left = 1 + random.below(800); left > 0; --left) {
      const uint64_t step = random.below(6) == 0 ? random.below(500) : random.below(4);
      sample = (sample + step) % dataset_->sample_count();
      list.samples.push_back(sample);
      list.drawn_for.push_back(random.below(1000));
    }
    const OrderOptions wanted{.seed = seed,
                              .group_bytes = (1 + random.below(60)) * FakeDataset::kSlotBytes,
                              .repeats = random.below(20)};
    const auto given = std::make_shared<const SampleList>(list);
    const Order order = made(given, wanted);
    EXPECT_EQ(order.lanes(), 1u);
    ASSERT_EQ(order.size(), list.samples.size());
    const uint64_t end = order.size() + wanted.repeats;
    for (uint64_t p = 0; p < end; ++p) {
      ASSERT_EQ(order.sample_at(p), list.samples[p % order.size()]);
      ASSERT_EQ(order.drawn_for(p, order.sample_at(p)), list.drawn_for[p % order.size()]);
    }
    check_groups(order, end);
    for (const Group& group : order.groups()) {
      uint64_t bytes = 0;
      for (const Stretch& stretch : order.stretches(group)) {
        const store::Location last = dataset_->location(stretch.last_sample);
        bytes += last.offset + last.length - dataset_->location(stretch.first_sample).offset;
      }
      EXPECT_TRUE(bytes <= wanted.group_bytes || group.stretch_count == 1);
    }
  }
}

// Samples in the order of a chunk are one read, even if samples between them are left out.
TEST_F(OrderSourceTest, NeighboursInAListAreReadInOnePiece) {
  const auto counts = [&](std::vector<uint64_t> samples) {
    const Order order = made(listed(std::move(samples)));
    std::vector<uint32_t> out;
    for (const Group& group : order.groups()) {
      for (const Stretch& stretch : order.stretches(group)) out.push_back(stretch.count);
    }
    return out;
  };
  EXPECT_THAT(counts({0, 1, 2, 3}), ElementsAre(4));
  EXPECT_THAT(counts({0, 5, 6, 39}), ElementsAre(4));        // gaps inside one chunk
  EXPECT_THAT(counts({38, 39, 40, 41}), ElementsAre(2, 2));  // another chunk begins at 40
  EXPECT_THAT(counts({3, 2, 2, 4}), ElementsAre(1, 1, 2));   // backwards, and again
  EXPECT_TRUE(counts({}).empty());
}

TEST_F(OrderSourceTest, DrawsFitIntoTheMemoryOfTheFirstEpoch) {
  const uint64_t count = dataset_->sample_count();
  std::vector<uint64_t> all(count);
  for (uint64_t i = 0; i < count; ++i) all[i] = i;
  const Order whole = Order::make_listed(*dataset_, listed(all), {}, 5 * FakeDataset::kSlotBytes);
  check_groups(whole, count);
  for (const Group& group : whole.groups()) {
    for (const Stretch& stretch : whole.stretches(group)) EXPECT_LE(stretch.count, 5u);
  }
  const auto weights = std::make_shared<const SampleWeights>(
      SampleWeights::make(std::vector<double>(count, 1)).value());
  const Weighted source{.weights = weights, .samples = 1000};
  const Order drawn = made(source, {.seed = 9, .repeats = 3}, 4);
  check_groups(drawn, 1003);
  for (uint64_t p = 0; p < 1003; ++p) {
    EXPECT_EQ(drawn.sample_at(p), weights->draw(9, 4, p % 1000));
  }
}

TEST_F(OrderSourceTest, SourcesThatDoNotSuitTheDatasetAreRefused) {
  const auto message = [&](SampleList list) {
    const Status status =
        check_source(std::make_shared<const SampleList>(std::move(list)), dataset_->sample_count());
    EXPECT_EQ(status.code(), Code::kInvalid);
    return status.message();
  };
  EXPECT_THAT(message({{3, 501}, {}, {}}), HasSubstr("no sample 501"));
  EXPECT_THAT(message({{3, 4}, {1}, {}}), HasSubstr("drawn_for has 1 numbers"));
  EXPECT_THAT(message({{3}, {1ull << 48}, {}}), HasSubstr("drawn_for"));
  EXPECT_THAT(message({{3, 4}, {}, {1}}), HasSubstr("the steps end at position 1"));
  EXPECT_THAT(message({{3, 4}, {}, {1, 1, 2}}), HasSubstr("from position 1 to 1"));
  SampleList large{
      .samples = std::vector<uint64_t>(base::kBatchMax + 1), .drawn_for = {}, .step_ends = {}};
  large.step_ends = {base::kBatchMax + 1};
  EXPECT_THAT(message(large), HasSubstr("it must have from 1 to"));
  const Weighted few{.weights = std::make_shared<const SampleWeights>(
                         SampleWeights::make(std::array{1.0, 2.0}).value()),
                     .samples = 3};
  EXPECT_THAT(check_source(few, 501).message(), HasSubstr("2 weights"));
  EXPECT_TRUE(check_source(few, 2).ok());
}

}  // namespace
}  // namespace forebay::feed
