#include "cache/held/held_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/random.h"

namespace forebay::cache {
namespace {

using io::Again;
using ::testing::HasSubstr;

constexpr uint64_t kRoom = 1u << 30;

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

class HeldRangesTest : public ::testing::Test {
 protected:
  HeldRangesTest() : folder_(::testing::TempDir() + "/store_test_" + std::to_string(::getpid())) {
    open(0, 1u << 30);
  }
  ~HeldRangesTest() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  void open(uint64_t memory, uint64_t disk, io::Found found = io::Found::kRemove) {
    store_.reset();
    store_ = std::move(
        HeldRanges::open({folder_ + "/memory", memory}, {folder_ + "/disk", disk}, found).value());
  }
  // Leaves the held ranges as a killed process does, and opens them as another process does.
  void go_on(uint64_t memory, uint64_t disk) {
    store_->stay();
    open(memory, disk, io::Found::kUse);
  }
  void keep(int number, uint64_t offset, uint64_t length, Again again = Again::kSoon) {
    store_->keep(file(number), offset, bytes_of(number, offset, length), again);
  }
  // Reads a range, checks the bytes that are held, and returns how many are missing.
  uint64_t missing(int number, uint64_t offset, uint64_t length, Again again = Again::kSoon) {
    base::ByteVector out(length, 0);
    const auto gaps = store_->read(file(number), {{offset, out, again}}, &hits_);
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
  // The disk space of a folder's files, without the list and the lock.
  uint64_t allocated(const std::string& folder) const {
    uint64_t bytes = 0;
    const auto entries = io::posix_file_system().list(folder).value();
    for (const io::DirEntry& entry : entries) {
      const bool is_data = entry.name.size() == 64;
      const auto path = io::join_path(folder, entry.name);
      if (is_data) bytes += io::posix_file_system().stat(path).value().allocated;
    }
    return bytes;
  }
  // Writes a byte into the middle of each file in the folder.
  void damage(const std::string& folder) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().filename().string().size() != 64) continue;
      std::fstream stream(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      stream.seekp(static_cast<std::streamoff>(std::filesystem::file_size(entry.path()) / 2));
      const int before = stream.peek();
      stream.put(static_cast<char>(before ^ 1));
    }
  }

  const std::string folder_;
  std::unique_ptr<HeldRanges> store_;
  TierBytes hits_;
};

TEST_F(HeldRangesTest, WhatIsKeptIsReadAndTheRestIsMissing) {
  EXPECT_EQ(missing(1, 0, 1000), 1000u);
  keep(1, 500, 1'000'000);
  EXPECT_EQ(missing(1, 0, 2'000'000), 1'000'000u);
  EXPECT_EQ(missing(1, 600'000, 7), 0u);
  EXPECT_EQ(missing(2, 600'000, 7), 7u);
  keep(1, 0, 2'000'000);  // the held range grows
  EXPECT_EQ(missing(1, 0, 2'000'000), 0u);
}

TEST_F(HeldRangesTest, AnyRangesInAnyOrderAreHeldOnce) {
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
    const HeldStats stats = store_->stats();
    EXPECT_GE(stats.held.memory + stats.held.disk, count);
    EXPECT_LE(stats.held.memory + stats.held.disk, count + 80u * 4096);
    EXPECT_LE(stats.held.memory, 300'000u);
    EXPECT_EQ(hits_.memory + hits_.disk, count);
  }
}

TEST_F(HeldRangesTest, MemoryIsFilledBeforeTheDiskAndBothHaveHardLimits) {
  open(1u << 20, 2u << 20);
  keep(1, 0, 5u << 20);
  const HeldStats stats = store_->stats();
  EXPECT_EQ(stats.held.memory, 3u << 18);  // the list takes some bytes too
  EXPECT_EQ(stats.held.disk, 7u << 18);
  EXPECT_EQ(stats.refused_bytes, 10u << 18);
  EXPECT_EQ(missing(1, 0, 5u << 20), 10u << 18);
}

TEST_F(HeldRangesTest, DamageOnTheDiskIsFoundAndKeptAnew) {
  keep(1, 0, 1'000'000);
  const uint64_t held = store_->stats().held.disk;
  damage(folder_ + "/disk");
  const uint64_t lost = missing(1, 0, 1'000'000);
  EXPECT_GT(lost, 0u);
  EXPECT_LT(lost, 300'000u);
  EXPECT_EQ(store_->stats().damaged, 1u);
  keep(1, 0, 1'000'000);
  EXPECT_EQ(missing(1, 0, 1'000'000), 0u);
  EXPECT_EQ(store_->stats().held.disk, held);
}

TEST_F(HeldRangesTest, WhatIsGoneFromAFileIsMissing) {
  keep(1, 0, 1'000'000);
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/disk")) {
    if (entry.path().filename() != "list") std::filesystem::resize_file(entry.path(), 10'000);
  }
  EXPECT_EQ(missing(1, 0, 1'000'000), 1'000'000u);
  EXPECT_THAT(store_->trouble(), HasSubstr("ends at byte"));
}

TEST_F(HeldRangesTest, WhatIsSentFromFilesHasTheChecksumsOfItsBytes) {
  open(500'000, kRoom);
  keep(1, 1000, 1'000'000);
  keep(1, 1'001'000, 7);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    base::Random random(seed, base::Purpose::kTest);
    const uint64_t offset = random.below(1'000'000);
    const uint64_t length = 1 + random.below(seed % 2 == 0 ? 100 : 200'000);
    TierBytes hits;
    const auto found = store_->find(file(1), {{offset, length}, {900'000, 1}}, &hits);
    const bool is_held = offset >= 1000 && offset + length <= 1'001'007;
    ASSERT_EQ(found.has_value(), is_held) << seed;
    if (!is_held) continue;
    EXPECT_EQ(hits.memory + hits.disk, length + 1);
    EXPECT_EQ(found->front().crc32c, base::crc32c(bytes_of(1, offset, length))) << seed;
    base::ByteVector sent;
    for (const io::serve::HeldPiece& piece : found->front().pieces) {
      const size_t at = sent.size();
      sent.insert(sent.end(), piece.bytes.begin(), piece.bytes.end());
      if (piece.file == nullptr) continue;
      sent.resize(at + piece.length);
      ASSERT_EQ(::pread(piece.file->fd(), sent.data() + at, piece.length,
                        static_cast<off_t>(piece.offset)),
                static_cast<ssize_t>(piece.length));
    }
    EXPECT_EQ(sent, bytes_of(1, offset, length)) << seed;
  }
}

TEST_F(HeldRangesTest, WhatWasForgottenIsNotReadAgain) {
  keep(1, 0, 600'000);
  store_->forget(file(1), 300'000, 1);
  EXPECT_EQ(missing(1, 0, 600'000), 256u << 10);
}

TEST_F(HeldRangesTest, NothingIsLeftAtTheEnd) {
  keep(1, 0, 600'000);
  store_.reset();
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/disk"));
}

TEST_F(HeldRangesTest, AnotherProcessGoesOnWithWhatIsHeld) {
  open(1u << 20, kRoom);
  keep(1, 100, 3'000'000);
  keep(2, 5'000'000, 10'000);
  missing(1, 500'000, 10);
  store_->forget(file(1), 1'000'000, 1);
  const HeldStats before = store_->stats();
  go_on(1u << 20, kRoom);
  const HeldStats after = store_->stats();
  EXPECT_EQ(after.held.memory, before.held.memory);
  EXPECT_EQ(after.held.disk, before.held.disk);
  EXPECT_EQ(after.found_bytes, 3'010'000u - (256u << 10));
  EXPECT_EQ(missing(1, 100, 3'000'000), 256u << 10);
  EXPECT_EQ(missing(2, 5'000'000, 10'000), 0u);
  EXPECT_EQ(after.damaged, 0u);
}

TEST_F(HeldRangesTest, WhatWasFoundIsCutToTheRoomThatThereIs) {
  keep(1, 0, 3'000'000);
  keep(2, 0, 3'000'000);
  go_on(0, 2'000'000);
  EXPECT_LE(store_->stats().held.disk, 2'000'000u);
  EXPECT_GE(store_->stats().held.disk, 1'700'000u);
  EXPECT_LE(allocated(folder_ + "/disk"), 2'000'000u);
}

TEST_F(HeldRangesTest, AListThatIsCutOrDamagedMisleadsNobody) {
  keep(1, 0, 2'000'000);
  store_->stay();
  store_.reset();
  const std::string list = folder_ + "/disk/list";
  const auto content = io::posix_file_system().read_whole(list, 1 << 20).value();
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    base::Random random(seed, base::Purpose::kTest);
    auto changed = content;
    changed.resize(random.below(changed.size() + 1));
    for (int i = 0; i < 3 && !changed.empty() && seed % 2 == 0; ++i) {
      changed[random.below(changed.size())] ^= static_cast<uint8_t>(1 + random.below(255));
    }
    ASSERT_TRUE(io::posix_file_system().put(list, changed).ok());
    open(0, kRoom, io::Found::kUse);
    missing(1, 0, 2'000'000);  // checks the bytes
    EXPECT_LE(allocated(folder_ + "/disk"), store_->stats().held.disk);
    keep(1, 0, 2'000'000);
    EXPECT_EQ(missing(1, 0, 2'000'000), 0u);
    EXPECT_EQ(store_->stats().damaged, 0u);
    store_->stay();
    store_.reset();
  }
}

TEST_F(HeldRangesTest, WhatIsNeededLaterMakesRoomForWhatIsNeededSoon) {
  open(0, 1'100'000);
  keep(1, 0, 500'000, Again::kLater);
  keep(2, 0, 500'000);
  keep(3, 0, 500'000, Again::kLater);  // no room
  EXPECT_EQ(missing(1, 0, 500'000, Again::kLater), 0u);
  EXPECT_EQ(missing(3, 0, 500'000), 500'000u);
  keep(4, 0, 400'000);
  EXPECT_EQ(missing(4, 0, 400'000), 0u);
  EXPECT_EQ(missing(2, 0, 500'000, Again::kLater), 0u);  // from now on it may be dropped
  EXPECT_GT(missing(1, 0, 500'000), 200'000u);
  keep(5, 0, 600'000);
  EXPECT_GT(missing(2, 0, 500'000), 200'000u);
  EXPECT_EQ(missing(4, 0, 400'000), 0u);
  EXPECT_LE(allocated(folder_ + "/disk"), 1'100'000u);
}

TEST_F(HeldRangesTest, OnlyTheBlocksThatAreNeededLaterMakeRoom) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    base::Random random(seed, base::Purpose::kTest);
    open(0, 700'000);
    const uint64_t begin = random.below(100'000);
    keep(1, begin, 500'000);
    // The bytes are in several extents, and only a few ranges of them are still needed soon.
    std::vector<WantedRange> soon;
    for (uint64_t at = begin + random.below(50'000); at < begin + 450'000;) {
      soon.push_back({at, 1 + random.below(40'000)});
      at += soon.back().length + random.below(60'000);
    }
    EXPECT_EQ(missing(1, begin, 500'000, Again::kLater), 0u);
    for (const WantedRange& range : soon) EXPECT_EQ(missing(1, range.offset, range.length), 0u);
    keep(2, 0, 2'000'000);
    EXPECT_GT(missing(1, begin, 500'000, Again::kLater), 0u);
    for (const WantedRange& range : soon) EXPECT_EQ(missing(1, range.offset, range.length), 0u);
    EXPECT_LE(allocated(folder_ + "/disk"), store_->stats().held.disk);
    const uint64_t held = store_->stats().held.disk;
    // Another process finds the same ranges.
    go_on(0, 1u << 20);
    EXPECT_EQ(store_->stats().held.disk, held);
    for (const WantedRange& range : soon) EXPECT_EQ(missing(1, range.offset, range.length), 0u);
    EXPECT_EQ(store_->stats().damaged, 0u);
  }
}

TEST_F(HeldRangesTest, WhatNobodyAskedForSinceItWasFoundGoesInTheEnd) {
  keep(1, 0, 1'000'000);
  keep(2, 0, 1'000'000);
  go_on(0, 2'100'000);
  keep(3, 0, 1'000'000);
  EXPECT_EQ(store_->stats().dropped_bytes, 0u);
  for (int epoch = 0; epoch < 8; ++epoch) EXPECT_EQ(missing(1, 0, 1'000'000), 0u);
  keep(3, 0, 1'000'000);
  EXPECT_EQ(missing(3, 0, 1'000'000), 0u);
  EXPECT_EQ(missing(1, 0, 1'000'000), 0u);
  EXPECT_GT(missing(2, 0, 1'000'000), 900'000u);
}

TEST_F(HeldRangesTest, TheListStaysShort) {
  open(0, 200'000'000);
  for (int i = 0; i < 30'000; ++i) {
    keep(1, 0, 100);
    store_->forget(file(1), 0, 100);
  }
  EXPECT_LT(std::filesystem::file_size(folder_ + "/disk/list"), 300'000u);
}

TEST_F(HeldRangesTest, AFolderWithOtherThingsIsRefused) {
  store_.reset();
  std::filesystem::create_directories(folder_ + "/disk");
  std::ofstream(folder_ + "/disk/thesis.tex") << "precious";
  const auto store = HeldRanges::open({}, {folder_ + "/disk", 1000}, io::Found::kRemove);
  ASSERT_FALSE(store.has_value());
  EXPECT_THAT(store.error().message(), HasSubstr("thesis.tex"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/disk/thesis.tex"));
}

TEST_F(HeldRangesTest, ManyThreadsMayKeepReadAndDropTheSame) {
  open(100'000, 300'000);
  std::vector<std::jthread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      base::Random random(t, base::Purpose::kTest);
      for (int i = 0; i < 300; ++i) {
        const uint64_t offset = random.below(800'000);
        keep(0, offset, 1 + random.below(20'000),
             random.below(2) == 0 ? Again::kSoon : Again::kLater);
        base::ByteVector out(1 + random.below(150'000));
        const uint64_t begin = random.below(800'000);
        TierBytes hits;
        const Again again = random.below(2) == 0 ? Again::kSoon : Again::kLater;
        store_->read(file(0), {{begin, out, again}}, &hits);
      }
    });
  }
  threads.clear();
  const HeldStats stats = store_->stats();
  EXPECT_EQ(stats.damaged, 0u);
  EXPECT_GT(stats.dropped_bytes, 0u);
  EXPECT_LE(stats.held.memory, 100'000u);
  EXPECT_LE(stats.held.disk, 300'000u);
  EXPECT_LE(allocated(folder_ + "/memory"), stats.held.memory);
  EXPECT_LE(allocated(folder_ + "/disk"), stats.held.disk);
  missing(0, 0, 900'000);  // checks the bytes
}

}  // namespace
}  // namespace forebay::cache
