#include "cache/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <latch>
#include <thread>

#include "base/random.h"
#include "cache/cached_origin.h"
#include "cache/peers/file_name.h"
#include "cache/testing/job_secret.h"
#include "io/machine.h"
#include "io/testing/comes_true.h"
#include "io/testing/far_origin.h"
#include "io/testing/memory.h"

namespace forebay::cache {
namespace {

using base::Code;
using io::testing::comes_true;

constexpr uint64_t kFileBytes = 40'000'000;  // three pieces
constexpr int kFiles = 4;

std::string path_of(int number) { return "/set/chunks/" + std::to_string(number) + ".tar"; }

// A remote origin with some files, and machines of a job, all in this process.
class CacheTest : public ::testing::Test {
 protected:
  CacheTest() : folder_(::testing::TempDir() + "/cache_test_" + std::to_string(::getpid())) {
    static const std::vector<base::ByteVector> contents = make_contents();
    for (int i = 0; i < kFiles; ++i) {
      EXPECT_TRUE(disk_.put(path_of(i), contents[static_cast<size_t>(i)]).ok());
    }
  }
  static std::vector<base::ByteVector> make_contents() {
    std::vector<base::ByteVector> contents;
    base::Random random(7, base::Purpose::kTest);
    for (int i = 0; i < kFiles; ++i) {
      base::ByteVector bytes(kFileBytes);
      for (uint64_t at = 0; at < kFileBytes; at += 8) {
        const uint64_t word = random.next_u64();
        std::memcpy(bytes.data() + at, &word, 8);
      }
      contents.push_back(std::move(bytes));
    }
    return contents;
  }
  ~CacheTest() override { std::filesystem::remove_all(folder_); }

  struct Machine {
    std::shared_ptr<Cache> cache;
    std::unique_ptr<CachedOrigin> origin;
  };
  CacheOptions options(int machine, uint64_t bytes) const {
    return {.folder = folder_ + "/" + std::to_string(machine),
            .disk_bytes_max = bytes,
            .secret = secret_};
  }
  Machine start(int machine, uint64_t bytes = 1u << 30) {
    auto cache = Cache::open(options(machine, bytes));
    EXPECT_TRUE(cache.has_value()) << base::status_of(cache).message();
    return {*cache, std::make_unique<CachedOrigin>(far_, *cache, "/set")};
  }
  std::vector<Machine> start_job(int machines, uint64_t bytes = 1u << 30) {
    secret_ = job_secret();
    std::vector<Machine> job;
    std::vector<Member> members;
    for (int i = 0; i < machines; ++i) {
      job.push_back(start(i, bytes));
      members.push_back(job.back().cache->machine());
    }
    for (const Machine& machine : job) machine.cache->join(members);
    EXPECT_TRUE(comes_true([&] {
      return std::ranges::all_of(job, [&](const Machine& machine) {
        return machine.cache->stats().members == members.size();
      });
    }));
    return job;
  }
  static std::unique_ptr<io::ReadableFile> open(const Machine& machine, int number,
                                                io::Copies copies = io::Copies::kAny) {
    return std::move(
        machine.origin
            ->open(path_of(number), {.known = io::Identity{.size = kFileBytes}, .copies = copies})
            .value());
  }
  // Reads a file, or its first megabytes, in ranges of a megabyte, and compares the bytes.
  Status read_all(const Machine& machine, int number, uint64_t bytes = kFileBytes) {
    const auto file = open(machine, number);
    base::ByteVector out(bytes);
    std::vector<io::Range> ranges;
    for (uint64_t at = 0; at < bytes; at += 1'000'000) {
      ranges.push_back({at, base::MutableBytes(out).subspan(at, 1'000'000)});
    }
    RETURN_IF_ERROR(io::read_ranges(*file, ranges));
    EXPECT_TRUE(std::equal(out.begin(), out.end(), disk_.content(path_of(number)).begin()));
    return {};
  }
  static uint64_t origin_bytes(const std::vector<Machine>& job) {
    uint64_t bytes = 0;
    for (const Machine& machine : job) bytes += machine.cache->stats().origin_bytes;
    return bytes;
  }

  const std::string folder_;
  io::Secret secret_;
  io::MemoryFileSystem disk_;
  std::shared_ptr<io::FarOrigin> far_ = std::make_shared<io::FarOrigin>(disk_);
};

TEST_F(CacheTest, EveryByteComesFromTheOriginOnceWhoeverNeedsIt) {
  const auto job = start_job(3);
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int i = 0; i < kFiles; ++i) {
      const Machine& reader = job[static_cast<size_t>(i + epoch) % job.size()];
      ASSERT_TRUE(read_all(reader, i).ok());
    }
    EXPECT_EQ(origin_bytes(job), kFiles * kFileBytes) << epoch;
  }
  // Which member owns what depends on chance.
  uint64_t read = 0;
  uint64_t served = 0;
  uint64_t from_peers = 0;
  for (const Machine& machine : job) {
    const CacheStats stats = machine.cache->stats();
    EXPECT_TRUE(stats.serves);
    EXPECT_EQ(stats.members, 3u);
    EXPECT_EQ(stats.peers.failures, 0u);
    read += stats.hits.disk + stats.peers.hit_bytes;
    served += stats.served.bytes;
    from_peers += stats.peers.hit_bytes;
  }
  EXPECT_GE(read, 2 * kFiles * kFileBytes);
  EXPECT_LE(read, 3 * kFiles * kFileBytes);
  EXPECT_EQ(served, from_peers);
  EXPECT_GT(served, 0u);
}

TEST_F(CacheTest, ManyWhoNeedTheSameAtOnceFetchItOnce) {
  const auto job = start_job(2);
  std::latch begin(8);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        begin.arrive_and_wait();
        EXPECT_TRUE(read_all(job[t % 2], 0, 5'000'000).ok());
      });
    }
  }
  EXPECT_EQ(origin_bytes(job), 5'000'000u);
}

TEST_F(CacheTest, WhoComesWhenAFetchEndsDoesNotFetchAgain) {
  const Machine machine = start(0);
  constexpr uint64_t kStep = 5000;
  constexpr uint64_t kSteps = 400;
  std::latch begin(8);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        const auto file = open(machine, 0);
        base::ByteVector out(kStep);
        begin.arrive_and_wait();
        for (uint64_t i = 0; i < kSteps; ++i) EXPECT_TRUE(file->read(i * kStep, out).ok());
      });
    }
  }
  EXPECT_EQ(machine.cache->stats().origin_bytes, kSteps * kStep);
}

TEST_F(CacheTest, WhatDoesNotFitIsReadAgainAndTheLimitHolds) {
  const auto job = start_job(2, kFiles * kFileBytes / 4);  // room for half of all bytes
  uint64_t held = 0;
  uint64_t missing = 0;  // bytes that were not held when their epoch began
  for (int epoch = 0; epoch < 3; ++epoch) {
    missing += kFiles * kFileBytes - held;
    for (int i = 0; i < kFiles; ++i) ASSERT_TRUE(read_all(job[0], i).ok());
    held = 0;
    for (const Machine& machine : job) {
      const CacheStats stats = machine.cache->stats();
      EXPECT_LE(stats.store.held.disk, kFiles * kFileBytes / 4);
      held += stats.store.held.disk;
    }
  }
  // Each machine holds what it owns, as far as it has room; how much it owns depends on chance.
  std::vector<Member> members;
  for (const Machine& machine : job) members.push_back(machine.cache->machine());
  std::array<uint64_t, 2> owned{};
  for (int i = 0; i < kFiles; ++i) {
    const std::string target = encode_target({path_of(i), {.size = kFileBytes}});
    for (uint64_t at = 0; at < kFileBytes; at += kPieceBytes) {
      const size_t owner =
          owner_of(base::sha256(base::as_bytes(target)), at / kPieceBytes, members);
      owned[owner] += std::min(kPieceBytes, kFileBytes - at);
    }
  }
  uint64_t expected = 0;
  for (const uint64_t bytes : owned) expected += std::min(bytes, kFiles * kFileBytes / 4);
  EXPECT_GE(held, expected * 97 / 100);
  // Held bytes are not dropped for other bytes.
  EXPECT_LE(origin_bytes(job), missing + 2'000'000);
}

TEST_F(CacheTest, MembersThatComeAndGoAreNoticed) {
  auto job = start_job(3);
  const auto count = [&](size_t members) {
    return comes_true([&] {
      return std::ranges::all_of(
          job, [&](const Machine& one) { return one.cache->stats().members == members; });
    });
  };
  ASSERT_TRUE(count(3));
  for (int i = 0; i < kFiles; ++i) ASSERT_TRUE(read_all(job[0], i).ok());
  job.pop_back();
  ASSERT_TRUE(count(2));
  for (int i = 0; i < kFiles; ++i) ASSERT_TRUE(read_all(job[0], i).ok());
  EXPECT_EQ(job[0].cache->stats().peers.failures, 0u);
  // A machine that comes later needs to know one of them.
  job.push_back(start(7));
  job.back().cache->join({job[0].cache->machine()});
  ASSERT_TRUE(count(3));
  // It gets its share from the machines that held it.
  const uint64_t before = origin_bytes(job);
  for (int i = 0; i < kFiles; ++i) ASSERT_TRUE(read_all(job[0], i).ok());
  EXPECT_GT(job.back().cache->stats().store.held.disk, 0u);
  EXPECT_EQ(origin_bytes(job), before);
}

TEST_F(CacheTest, AMemberThatDoesNotAnswerIsBypassed) {
  secret_ = job_secret();
  const Machine machine = start(0);
  // Nobody listens at that port.
  machine.cache->join(
      {{.id = "gone", .host = "127.0.0.1", .port = 9, .room_bytes = 1u << 30, .incarnation = 1}});
  for (int i = 0; i < kFiles; ++i) ASSERT_TRUE(read_all(machine, i).ok());
  EXPECT_TRUE(comes_true([&] { return machine.cache->stats().members == 1; }));
}

TEST_F(CacheTest, ASecondProcessOfAMachineUsesTheFirst) {
  const Machine first = start(0);
  const Machine second = start(0);
  EXPECT_FALSE(second.cache->stats().serves);
  EXPECT_EQ(second.cache->machine(), first.cache->machine());
  ASSERT_TRUE(read_all(second, 0).ok());
  ASSERT_TRUE(read_all(second, 0).ok());
  EXPECT_EQ(second.cache->stats().origin_bytes, 0u);
  EXPECT_EQ(first.cache->stats().origin_bytes, kFileBytes);
}

TEST_F(CacheTest, BytesThatWereDamagedOnTheirWayAreReplaced) {
  const Machine machine = start(0);
  far_->damage("1.tar", 1);
  const auto file = open(machine, 1);
  base::ByteVector out(1000);
  ASSERT_TRUE(file->read(5000, out).ok());
  EXPECT_FALSE(std::equal(out.begin(), out.end(), disk_.content(path_of(1)).begin() + 5000));
  ASSERT_TRUE(open(machine, 1, io::Copies::kAnew)->read(5000, out).ok());
  EXPECT_TRUE(std::equal(out.begin(), out.end(), disk_.content(path_of(1)).begin() + 5000));
  ASSERT_TRUE(file->read(5000, out).ok());
  EXPECT_TRUE(std::equal(out.begin(), out.end(), disk_.content(path_of(1)).begin() + 5000));
  EXPECT_EQ(machine.cache->stats().origin_bytes, 2000u);
}

TEST_F(CacheTest, DamageOnAMembersDiskIsFoundByWhoeverReadsAndMended) {
  const Machine first = start(0);
  const Machine second = start(0);
  ASSERT_TRUE(read_all(second, 0).ok());
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/0/held")) {
    if (entry.path().filename().string().size() != 64) continue;
    std::fstream stream(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(10'500'000);
    stream.write("no", 2);
  }
  ASSERT_TRUE(read_all(second, 0).ok());
  EXPECT_EQ(second.cache->stats().peers.damaged, 1u);
  EXPECT_EQ(second.cache->stats().peers.failures, 0u);
  EXPECT_EQ(first.cache->stats().store.damaged, 1u);
  ASSERT_TRUE(read_all(second, 0).ok());
  EXPECT_EQ(second.cache->stats().peers.damaged, 1u);
  EXPECT_EQ(second.cache->stats().origin_bytes, 0u);
  EXPECT_LE(first.cache->stats().origin_bytes, kFileBytes + 300'000);
}

TEST_F(CacheTest, OnlyWhatIsKnownAndAskedForSoIsCached) {
  const Machine machine = start(0);
  const auto known = open(machine, 0, io::Copies::kNone);
  const auto unknown = std::move(machine.origin->open(path_of(0), {}).value());
  base::ByteVector out(1000);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(known->read(0, out).ok());
    ASSERT_TRUE(unknown->read(0, out).ok());
  }
  EXPECT_EQ(machine.cache->stats().store.held.disk, 0u);
}

TEST_F(CacheTest, AReadBehindTheEndIsTheOriginsError) {
  const Machine machine = start(0);
  base::ByteVector out(1000);
  const Status status = open(machine, 0)->read(kFileBytes - 10, out);
  EXPECT_EQ(status.code(), Code::kTruncated) << status.message();
}

TEST_F(CacheTest, AMemberMayBeAskedForADatasetThatItIsJustOpening) {
  auto serving = Cache::open(options(0, 1u << 30)).value();
  const Machine other = start(0);
  std::unique_ptr<CachedOrigin> origin;
  const std::jthread opener([&] {
    ::usleep(200'000);
    origin = std::make_unique<CachedOrigin>(far_, serving, "/set");
  });
  ASSERT_TRUE(read_all(other, 0, 1'000'000).ok());
  EXPECT_EQ(other.cache->stats().origin_bytes, 0u);
  EXPECT_EQ(serving->stats().origin_bytes, 1'000'000u);
}

TEST_F(CacheTest, NothingIsLeftWhenTheJobEnds) {
  {
    const Machine machine = start(0);
    ASSERT_TRUE(read_all(machine, 0).ok());
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/0/held"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/0"));
}

TEST_F(CacheTest, AnotherProcessOfTheMachineGoesOnWithWhatIsHeld) {
  auto first = std::make_unique<Machine>(start(0));
  std::vector<Machine> others;
  for (int i = 0; i < 2; ++i) others.push_back(start(0));
  ASSERT_TRUE(read_all(others[0], 0).ok());
  const Member before = first->cache->machine();
  first.reset();
  ASSERT_TRUE(comes_true([&] {
    return std::ranges::all_of(others,
                               [&](const Machine& one) { return one.cache->machine() != before; });
  }));
  EXPECT_NE(others[0].cache->stats().serves, others[1].cache->stats().serves);
  EXPECT_EQ(others[0].cache->machine(), others[1].cache->machine());
  EXPECT_EQ(others[0].cache->machine().id, before.id);
  EXPECT_GT(others[0].cache->machine().incarnation, before.incarnation);
  for (const Machine& one : others) ASSERT_TRUE(read_all(one, 0).ok());
  EXPECT_EQ(origin_bytes(others), 0u);
}

// Also in the working folder, which the empty name of a missing memory folder would mean.
TEST_F(CacheTest, TheLastProcessOfAMachineLeavesNothing) {
  const auto before = std::filesystem::current_path();
  const std::string here = folder_ + "/here";
  std::filesystem::create_directories(here);
  std::filesystem::permissions(here, std::filesystem::perms(0755));
  std::filesystem::current_path(here);
  for (int i = 0; i < 10; ++i) {
    auto first = std::make_unique<Machine>(start(0));
    auto second = std::make_unique<Machine>(start(0));
    auto third = std::make_unique<Machine>(start(0));
    ASSERT_TRUE(read_all(*second, 0, 5'000'000).ok());
    {
      const std::jthread one([&] { first.reset(); });
      const std::jthread two([&] { second.reset(); });
      third.reset();
    }
    ASSERT_FALSE(std::filesystem::exists(folder_ + "/0")) << i;
  }
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::is_empty(here));
  EXPECT_EQ(std::filesystem::status(here).permissions(), std::filesystem::perms(0755));
}

TEST_F(CacheTest, WhatStaysIsThereForTheNextJob) {
  CacheOptions options = this->options(0, 1u << 30);
  options.stays = true;
  std::string id;
  for (int run = 0; run < 3; ++run) {
    const auto cache = Cache::open(options).value();
    if (run > 0) {
      EXPECT_EQ(cache->machine().id, id);
    }
    id = cache->machine().id;
    const Machine machine{cache, std::make_unique<CachedOrigin>(far_, cache, "/set")};
    ASSERT_TRUE(read_all(machine, 0).ok());
    EXPECT_EQ(cache->stats().origin_bytes, run == 0 ? kFileBytes : 0u);
    EXPECT_EQ(cache->stats().store.found_bytes, run == 0 ? 0 : kFileBytes);
  }
}

TEST_F(CacheTest, AJobThatIsStartedAgainGoesOnWithWhatAKilledOneLeft) {
  for (const char* const next : {"job", "another"}) {
    CacheOptions options = this->options(0, 1u << 30);
    options.job = "job";
    {
      const auto cache = Cache::open(options).value();
      const Machine machine{cache, std::make_unique<CachedOrigin>(far_, cache, "/set")};
      ASSERT_TRUE(read_all(machine, 0).ok());
      std::filesystem::copy(folder_ + "/0", folder_ + "/left",
                            std::filesystem::copy_options::recursive);
    }
    std::filesystem::rename(folder_ + "/left", folder_ + "/0");
    options.job = next;
    const auto cache = Cache::open(options).value();
    EXPECT_EQ(cache->stats().store.found_bytes, std::string_view(next) == "job" ? kFileBytes : 0u);
  }
}

TEST_F(CacheTest, AStoppedReadEndsAndTheNextOneFetches) {
  const Machine machine = start(0);
  far_->hold("0.tar");
  std::stop_source stop;
  std::jthread reader([&] {
    base::ByteVector out(1000);
    const Status status =
        open(machine, 0)->read(0, out, {.deadline_ns = {}, .stop = stop.get_token()});
    EXPECT_EQ(status.code(), Code::kCancelled);
  });
  far_->wait_for_reader();
  stop.request_stop();
  reader.join();
  far_->hold("nothing");
  ASSERT_TRUE(read_all(machine, 0).ok());
}

}  // namespace
}  // namespace forebay::cache
