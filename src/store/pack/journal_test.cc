#include "store/pack/journal.h"

#include <gmock/gmock.h>

#include <thread>

#include "io/testing/memory.h"
#include "io/testing/object_store.h"

namespace forebay::store {
namespace {

using base::Code;

constexpr uint64_t kRecords = 2000;

ChunkRecord record_of(uint64_t number) {
  ChunkRecord record{
      .number = number, .id = base::sha256({}), .bytes = 1000, .index_bytes = 10, .stats = {}};
  record.stats.samples = number;
  return record;
}

std::vector<uint64_t> numbers_in(const io::Origin& origin) {
  const auto content = Journal::read(origin, "set");
  EXPECT_TRUE(content) << content.error().message();
  std::vector<uint64_t> numbers;
  for (const ChunkRecord& record : content->records) {
    EXPECT_EQ(record.stats.samples, record.number);
    numbers.push_back(record.number);
  }
  return numbers;
}

void append_from_threads(Journal* journal) {
  std::vector<std::thread> threads;
  for (uint64_t first = 0; first < 4; ++first) {
    threads.emplace_back([journal, first] {
      for (uint64_t number = first; number < kRecords; number += 4) {
        ASSERT_TRUE(journal->append(record_of(number)).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Journal, KeepsTheRecordsOfAllThreadsInAFewFiles) {
  io::ObjectStore fs;
  ASSERT_TRUE(Journal::begin(fs, "set", {}, {}).ok());
  Journal journal(fs, "set", 1);
  append_from_threads(&journal);
  std::vector<uint64_t> numbers = numbers_in(fs);
  std::sort(numbers.begin(), numbers.end());
  ASSERT_EQ(numbers.size(), kRecords);
  for (uint64_t i = 0; i < kRecords; ++i) ASSERT_EQ(numbers[i], i);
  const auto files = fs.list("set/journal").value();
  EXPECT_GT(files.size(), 5u);
  EXPECT_LT(files.size(), 30u);
  for (const auto& file : files) {
    EXPECT_LT(fs.stat("set/journal/" + file.name)->size, 70'000u) << file.name;
  }
}

TEST(Journal, TwoRunsNeverReplaceEachOthersRecords) {
  io::ObjectStore fs;
  ASSERT_TRUE(Journal::begin(fs, "set", {}, {}).ok());
  Journal first(fs, "set", 1);
  Journal second(fs, "set", 1);
  for (uint64_t number = 0; number < 600; ++number) {
    ASSERT_TRUE((number % 2 == 0 ? first : second).append(record_of(number)).ok());
  }
  EXPECT_EQ(numbers_in(fs).size(), 600u);
  EXPECT_GT(Journal::read(fs, "set")->next_file, 4u);
}

TEST(Journal, ADamagedLineCostsOnlyTheRestOfItsFile) {
  io::MemoryFileSystem fs;
  ASSERT_TRUE(Journal::begin(fs, "set", {}, {}).ok());
  for (uint64_t file = 1; file <= 2; ++file) {
    Journal journal(fs, "set", file);
    for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(journal.append(record_of(file * 10 + i)).ok());
  }
  base::ByteVector& first = fs.content("set/journal/1");
  const size_t line = first.size() / 10;
  first[line * 4 + 20] ^= 1;
  std::vector<uint64_t> left = {10, 11, 12, 13};
  for (uint64_t number = 20; number < 30; ++number) left.push_back(number);
  EXPECT_EQ(numbers_in(fs), left);
  first.resize(line * 3 - 1);
  left.erase(left.begin() + 2, left.begin() + 4);
  EXPECT_EQ(numbers_in(fs), left);
  fs.content("set/journal/identity")[12] ^= 1;
  EXPECT_EQ(Journal::read(fs, "set").error().code(), Code::kCorrupt);
}

TEST(Journal, AFailedWriteFailsEveryLaterOne) {
  io::ObjectStore fs;
  ASSERT_TRUE(Journal::begin(fs, "set", {}, {}).ok());
  Journal journal(fs, "set", 1);
  ASSERT_TRUE(journal.append(record_of(1)).ok());
  fs.fail_from(0, false);
  EXPECT_EQ(journal.append(record_of(2)).code(), Code::kUnavailable);
  fs.recover();
  EXPECT_EQ(journal.append(record_of(3)).code(), Code::kUnavailable);
  EXPECT_EQ(numbers_in(fs), std::vector<uint64_t>{1});
}

// There is no memory for anything that is put.
class StoreWithoutMemory final : public io::ObjectStore {
 public:
  Status put_pieces(const std::string&, std::span<const Bytes>, const io::PutOptions&) override {
    throw std::bad_alloc();
  }
};

// A bug once: when a thread had no memory to write, all other threads waited for it endlessly.
TEST(Journal, LackOfMemoryIsAnErrorForAll) {
  StoreWithoutMemory fs;
  Journal journal(fs, "set", 1);
  std::vector<std::jthread> threads;
  for (uint64_t number = 0; number < 4; ++number) {
    threads.emplace_back(
        [&, number] { EXPECT_EQ(journal.append(record_of(number)).code(), Code::kNoMemory); });
  }
}

TEST(Journal, IsRemovedWithItsFolder) {
  io::MemoryFileSystem fs;
  ASSERT_TRUE(Journal::begin(fs, "set", {}, {}).ok());
  ASSERT_TRUE(Journal(fs, "set", 1).append(record_of(1)).ok());
  EXPECT_TRUE(*Journal::exists(fs, "set"));
  ASSERT_TRUE(Journal::remove(fs, "set").ok());
  EXPECT_FALSE(*Journal::exists(fs, "set"));
  EXPECT_FALSE(fs.stat("set/journal"));
  EXPECT_TRUE(Journal::remove(fs, "set").ok());
}

}  // namespace
}  // namespace forebay::store
