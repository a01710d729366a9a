#include "cache/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/random.h"

namespace forebay::cache {
namespace {

using ::testing::HasSubstr;

FileId file(int number) { return base::sha256(base::as_bytes(std::to_string(number))); }

// The byte of a file at a position.
uint8_t byte_at(int number, uint64_t at) {
  return static_cast<uint8_t>(at * 31 + at / 251 + static_cast<uint64_t>(number));
}
base::ByteVector bytes_of(int number, uint64_t offset, uint64_t length) {
  base::ByteVector bytes(length);
  for (uint64_t i = 0; i < length; ++i) bytes[i] = byte_at(number, offset + i);
  return bytes;
}

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() : folder_(::testing::TempDir() + "/store_test_" + std::to_string(::getpid())) {
    open(0, 1u << 30);
  }
  ~StoreTest() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  void open(uint64_t memory, uint64_t disk) {
    store_.reset();
    store_ =
        std::move(Store::open({folder_ + "/memory", memory}, {folder_ + "/disk", disk}).value());
  }
  void keep(int number, uint64_t offset, uint64_t length) {
    store_->keep(file(number), offset, bytes_of(number, offset, length));
  }
  // Reads a range, checks the bytes that are held, and returns how many are missing.
  uint64_t missing(int number, uint64_t offset, uint64_t length) {
    base::ByteVector out(length, 0);
    const auto gaps = store_->read(file(number), {{offset, out}}, &hits_);
    uint64_t sum = 0;
    uint64_t at = offset;
    const auto check = [&](uint64_t until) {
      for (; at < until; ++at) EXPECT_EQ(out[at - offset], byte_at(number, at)) << at;
    };
    for (const io::Range& gap : gaps) {
      EXPECT_EQ(gap.out.data(), out.data() + (gap.offset - offset));
      check(gap.offset);
      at = gap.offset + gap.out.size();
      sum += gap.out.size();
    }
    check(offset + length);
    return sum;
  }
  // Writes a byte into the middle of each file in the folder.
  void damage(const std::string& folder) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::fstream stream(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      stream.seekp(static_cast<std::streamoff>(std::filesystem::file_size(entry.path()) / 2));
      const int before = stream.peek();
      stream.put(static_cast<char>(before ^ 1));
    }
  }

  const std::string folder_;
  std::unique_ptr<Store> store_;
  TierBytes hits_;
};

TEST_F(StoreTest, WhatIsKeptIsReadAndTheRestIsMissing) {
  EXPECT_EQ(missing(1, 0, 1000), 1000u);
  keep(1, 500, 1'000'000);
  EXPECT_EQ(missing(1, 0, 2'000'000), 1'000'000u);
  EXPECT_EQ(missing(1, 600'000, 7), 0u);
  EXPECT_EQ(missing(2, 600'000, 7), 7u);
  keep(1, 0, 2'000'000);  // an entry grows
  EXPECT_EQ(missing(1, 0, 2'000'000), 0u);
}

TEST_F(StoreTest, AnyRangesInAnyOrderAreHeldOnce) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    base::Random random(seed, base::Purpose::kTest);
    open(300'000, 1u << 30);
    hits_ = {};
    std::vector<bool> held(1'000'000);
    for (int i = 0; i < 40; ++i) {
      const uint64_t offset = random.below(held.size());
      const uint64_t length = 1 + random.below(std::min<uint64_t>(held.size() - offset, 100'000));
      keep(0, offset, length);
      std::fill_n(held.begin() + static_cast<ptrdiff_t>(offset), length, true);
    }
    const auto count = static_cast<uint64_t>(std::count(held.begin(), held.end(), true));
    EXPECT_EQ(missing(0, 0, held.size()), held.size() - count);
    const StoreStats stats = store_->stats();
    EXPECT_GE(stats.held.memory + stats.held.disk, count);
    EXPECT_LE(stats.held.memory + stats.held.disk, count + 80u * 4096);
    EXPECT_LE(stats.held.memory, 300'000u);
    EXPECT_EQ(hits_.memory + hits_.disk, count);
  }
}

TEST_F(StoreTest, MemoryIsFilledBeforeTheDiskAndBothHaveHardLimits) {
  open(1u << 20, 2u << 20);
  keep(1, 0, 5u << 20);
  const StoreStats stats = store_->stats();
  EXPECT_EQ(stats.held.memory, 1u << 20);
  EXPECT_EQ(stats.held.disk, 2u << 20);
  EXPECT_EQ(stats.refused_bytes, 2u << 20);
  EXPECT_EQ(missing(1, 0, 5u << 20), 2u << 20);
}

TEST_F(StoreTest, DamageOnTheDiskIsFoundAndKeptAnew) {
  keep(1, 0, 1'000'000);
  damage(folder_ + "/disk");
  const uint64_t lost = missing(1, 0, 1'000'000);
  EXPECT_GT(lost, 0u);
  EXPECT_LT(lost, 300'000u);
  EXPECT_EQ(store_->stats().damaged, 1u);
  const uint64_t held = store_->stats().held.disk;
  keep(1, 0, 1'000'000);
  EXPECT_EQ(missing(1, 0, 1'000'000), 0u);
  EXPECT_EQ(store_->stats().held.disk, held);
}

TEST_F(StoreTest, AFileThatIsGoneIsMissing) {
  keep(1, 0, 1'000'000);
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/disk")) {
    std::filesystem::remove(entry.path());
  }
  EXPECT_EQ(missing(1, 0, 1'000'000), 1'000'000u);
  EXPECT_THAT(store_->trouble(), HasSubstr("No such file"));
}

TEST_F(StoreTest, WhatWasForgottenIsNotReadAgain) {
  keep(1, 0, 600'000);
  store_->forget(file(1), 300'000, 1);
  EXPECT_EQ(missing(1, 0, 600'000), 256u << 10);
}

TEST_F(StoreTest, NothingIsLeftAtTheEnd) {
  keep(1, 0, 600'000);
  store_.reset();
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/disk"));
}

TEST_F(StoreTest, AFolderWithOtherThingsIsRefused) {
  store_.reset();
  std::filesystem::create_directories(folder_ + "/disk");
  std::ofstream(folder_ + "/disk/thesis.tex") << "precious";
  const auto store = Store::open({}, {folder_ + "/disk", 1000});
  ASSERT_FALSE(store.has_value());
  EXPECT_THAT(store.error().message(), HasSubstr("thesis.tex"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/disk/thesis.tex"));
}

TEST_F(StoreTest, ManyThreadsMayKeepAndReadTheSame) {
  std::vector<std::jthread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      base::Random random(t, base::Purpose::kTest);
      for (int i = 0; i < 50; ++i) {
        const uint64_t offset = random.below(800'000);
        keep(0, offset, 1 + random.below(150'000));
        base::ByteVector out(1 + random.below(150'000));
        TierBytes hits;
        store_->read(file(0), {{random.below(800'000), out}}, &hits);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(store_->stats().damaged, 0u);
}

}  // namespace
}  // namespace forebay::cache
