// Memory comes back to be used again, and only so much is kept.
#include "prep/received_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace forebay::prep {
namespace {

constexpr uint64_t kBytes = 100'000;

TEST(ReceivedMemory, IsUsedAgainOnceNobodyHasIt) {
  const auto pool = std::make_shared<ReceivedMemory>();
  auto one = pool->take(kBytes);
  auto other = pool->take(kBytes);
  uint8_t* const first = one.get();
  EXPECT_NE(first, other.get());
  const auto owner = one;
  one = nullptr;
  EXPECT_NE(pool->take(kBytes).get(), first);  // somebody has it still
  one = owner;
}

TEST(ReceivedMemory, OfAnotherSizeIsNotTaken) {
  const auto pool = std::make_shared<ReceivedMemory>();
  uint8_t* const first = pool->take(kBytes).get();
  const auto larger = pool->take(10 * kBytes);
  EXPECT_NE(larger.get(), first);
  larger.get()[10 * kBytes - 1] = 1;
  const auto smaller = pool->take(1000);
  EXPECT_NE(smaller.get(), first);
  EXPECT_EQ(pool->take(kBytes - 1).get(), first);
  EXPECT_EQ(pool->take(kBytes).get(), first);
}

TEST(ReceivedMemory, OutlivesItsPool) {
  auto pool = std::make_shared<ReceivedMemory>();
  const auto memory = pool->take(kBytes);
  pool = nullptr;
  memory.get()[kBytes - 1] = 1;
}

TEST(ReceivedMemory, KeepsFew) {
  const auto pool = std::make_shared<ReceivedMemory>();
  std::vector<std::shared_ptr<uint8_t>> many;
  std::vector<uint8_t*> places;
  for (int i = 0; i < 10; ++i) {
    many.push_back(pool->take(kBytes));
    places.push_back(many.back().get());
  }
  many.clear();
  // The ones that came back last are there.
  std::vector<std::shared_ptr<uint8_t>> again;
  size_t known = 0;
  for (int i = 0; i < 4; ++i) {
    again.push_back(pool->take(kBytes));
    known += static_cast<size_t>(std::ranges::count(places, again.back().get()));
  }
  EXPECT_EQ(known, 4u);
}

}  // namespace
}  // namespace forebay::prep
