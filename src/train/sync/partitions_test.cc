#include "train/sync/partitions.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace forebay::train {
namespace {

TEST(Partitions, OnePartFitsTheLinkInAStep) {
  for (const double rate : {1.0, 7.0, 100.0, 333.0, 999.0, 1000.0, 5000.0}) {
    Partitions partitions(1000);
    partitions.follow(10);
    partitions.follow(rate);
    const auto part = static_cast<double>(partitions.floats_per_step());
    EXPECT_LE(part, std::max(rate, 1.0)) << rate;
    EXPECT_GE(partitions.count() * part, 1000) << rate;
  }
}

TEST(Partitions, FollowsOnlyLargeChanges) {
  Partitions partitions(1000);
  partitions.follow(10);
  EXPECT_EQ(partitions.count(), 100u);
  partitions.follow(11.5);
  partitions.follow(8.5);
  EXPECT_EQ(partitions.count(), 100u);
  partitions.follow(8);
  EXPECT_EQ(partitions.count(), 125u);
  partitions.follow(13);
  EXPECT_EQ(partitions.count(), 77u);
}

TEST(Partitions, AFastLinkGetsTheWholeModel) {
  Partitions partitions(1000);
  EXPECT_EQ(partitions.count(), 1u) << "before the first measurement";
  partitions.follow(500);
  EXPECT_EQ(partitions.count(), 2u);
  partitions.follow(1001);
  EXPECT_EQ(partitions.count(), 1u);
}

TEST(Partitions, HasALeastNumber) {
  Partitions partitions(1000, 8);
  EXPECT_EQ(partitions.count(), 8u);
  partitions.follow(900);
  EXPECT_EQ(partitions.count(), 8u);
  partitions.follow(50);
  EXPECT_EQ(partitions.count(), 20u);
  partitions.follow(120);
  EXPECT_EQ(partitions.count(), 9u);
  partitions.follow(126);
  EXPECT_EQ(partitions.count(), 8u);
  EXPECT_EQ(Partitions(3, 8).count(), 3u);
}

TEST(Partitions, HasABound) {
  Partitions partitions(uint64_t{1} << 40);
  partitions.follow(1e-3);
  EXPECT_EQ(partitions.count(), base::kPartitionsMax);
  Partitions small(3);
  small.follow(1e-3);
  EXPECT_EQ(small.count(), 3u);
}

}  // namespace
}  // namespace forebay::train
