// The random numbers that orders depend on, against published values.
#include "base/random.h"

#include <gtest/gtest.h>

namespace forebay::base {
namespace {

// The known-answer vectors that come with Random123 1.14 (kat_vectors, philox4x32 10).
TEST(Philox, MatchesKnownAnswers) {
  using Block = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, BelowIsUniform) {
  Random random(1, Purpose::kTest);
  std::array<int, 7> count{};
  for (int i = 0; i < 70000; ++i) ++count[random.below(count.size())];
  for (const int n : count) EXPECT_NEAR(n, 10000, 500);
}

TEST(Random, StreamsOfDifferentNamesDiffer) {
  Random a(1, Purpose::kTest, 0, 0);
  Random b(1, Purpose::kTest, 0, 1);
  Random c(1, Purpose::kTest, 1, 0);
  Random d(2, Purpose::kTest, 0, 0);
  Random e(1, Purpose::kAugment, 0, 0);
  const uint64_t first = a.next_u64();
  for (Random* other : {&b, &c, &d, &e}) EXPECT_NE(other->next_u64(), first);
}

TEST(Random, ShuffleGivesEveryPermutation) {
  std::array<int, 6> seen{};
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    Random random(seed, Purpose::kTest);
    std::array<int, 3> items{0, 1, 2};
    shuffle(std::span<int>(items), random);
    ++seen.at(static_cast<size_t>(items[0]) * 2 + (items[1] > items[2] ? 1 : 0));
  }
  for (const int n : seen) EXPECT_NEAR(n, 1000, 150);
}

}  // namespace
}  // namespace forebay::base
