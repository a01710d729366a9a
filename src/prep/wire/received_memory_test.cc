// Memory returns to the pool to be used again, and the pool keeps only little.
#include "prep/wire/received_memory.h"

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
  const auto third = pool->take(kBytes);
  EXPECT_NE(third.get(), first);  // the first memory is still in use
}

// Reused memory still has its content, which new memory from the system would not have.
TEST(ReceivedMemory, ThatCameBackIsTakenFirst) {
  constexpr uint64_t kLarge = 64 << 20;
  const auto pool = std::make_shared<ReceivedMemory>();
  auto memory = pool->take(kLarge);
  memory.get()[kLarge / 2] = 42;
  memory = nullptr;
  EXPECT_EQ(pool->take(kLarge).get()[kLarge / 2], 42);
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

// Each batch that comes as a file is named in a short answer.
TEST(ReceivedMemory, LittleDoesNotDriveLargeMemoryOut) {
  constexpr uint64_t kLarge = 64 << 20;
  const auto pool = std::make_shared<ReceivedMemory>();
  pool->take(kLarge).get()[kLarge / 2] = 42;
  std::vector<std::shared_ptr<uint8_t>> answers;
  for (int i = 0; i < 10; ++i) answers.push_back(pool->take(100));
  answers.clear();
  EXPECT_EQ(pool->take(kLarge).get()[kLarge / 2], 42);
}

TEST(ReceivedMemory, OutlivesItsPool) {
  auto pool = std::make_shared<ReceivedMemory>();
  const std::weak_ptr<ReceivedMemory> weak = pool;
  auto memory = pool->take(kBytes);
  std::fill_n(memory.get(), kBytes, uint8_t{42});
  pool = nullptr;
  EXPECT_TRUE(weak.expired());  // the memory does not keep its pool alive
  EXPECT_EQ(std::count(memory.get(), memory.get() + kBytes, 42), static_cast<ptrdiff_t>(kBytes));
  memory = nullptr;  // there is no pool that it could return to
}

TEST(ReceivedMemory, KeepsFew) {
  constexpr uint64_t kLarge = 16 << 20;
  constexpr size_t kMarked = kLarge / 2;
  const auto pool = std::make_shared<ReceivedMemory>();
  std::vector<std::shared_ptr<uint8_t>> many;
  for (int i = 0; i < 10; ++i) {
    many.push_back(pool->take(kLarge));
    many.back().get()[kMarked] = 42;
  }
  many.clear();
  size_t kept = 0;
  for (int i = 0; i < 10; ++i) {
    many.push_back(pool->take(kLarge));
    kept += many.back().get()[kMarked] == 42 ? 1 : 0;
  }
  EXPECT_EQ(kept, 4u);
}

}  // namespace
}  // namespace forebay::prep
