// A machine whose share is larger than its room: others hold the rest.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "cache/cached_origin.h"
#include "cache/peers/file_name.h"
#include "cache/testing/job_secret.h"
#include "io/machine.h"
#include "io/testing/far_origin.h"
#include "io/testing/memory.h"

namespace forebay::cache {
namespace {

constexpr size_t kMachines = 4;
constexpr uint64_t kReadBytes = 1u << 20;
constexpr uint64_t kFileReads = kPieceBytes / kReadBytes;  // reads of a file, which is one piece

// Machines of a job, all in this process, and files of which each machine owns a given number.
class OverflowTest : public ::testing::Test {
 protected:
  struct Machine {
    std::shared_ptr<Cache> cache;
    std::unique_ptr<CachedOrigin> origin;
  };

  OverflowTest() : folder_(::testing::TempDir() + "/overflow_test_" + std::to_string(::getpid())) {}
  ~OverflowTest() override {
    job_ = {};
    std::filesystem::remove_all(folder_);
  }

  Machine open(size_t number) const {
    auto cache = Cache::open({.folder = folder_ + "/" + std::to_string(number),
                              .disk_bytes_max = room_bytes_,
                              .stays = true,
                              .secret = job_secret()});
    EXPECT_TRUE(cache.has_value()) << base::status_of(cache).message();
    return {*cache, std::make_unique<CachedOrigin>(far_, *cache, "/set")};
  }
  // Whether each machine comes to know this number of members, within a time that is enough for any
  // machine.
  bool all_know(size_t members) const {
    const auto do_all = [&] {
      return std::ranges::all_of(job_, [&](const Machine& machine) {
        return machine.cache == nullptr || machine.cache->stats().members == members;
      });
    };
    const int64_t deadline_ns = io::monotonic_ns() + 10'000'000'000;
    while (!do_all() && io::monotonic_ns() < deadline_ns) ::usleep(1000);
    return do_all();
  }
  void start(uint64_t room_bytes, const std::array<size_t, kMachines>& owned) {
    room_bytes_ = room_bytes;
    std::vector<Member> members;
    for (size_t i = 0; i < kMachines; ++i) {
      job_[i] = open(i);
      members.push_back(job_[i].cache->machine());
    }
    for (const Machine& machine : job_) machine.cache->join(members);
    ASSERT_TRUE(all_know(kMachines));
    make_files(members, owned);
  }
  void make_files(const std::vector<Member>& members, std::array<size_t, kMachines> owned) {
    base::Random random(3, base::Purpose::kTest);
    for (int name = 0; std::ranges::any_of(owned, [](size_t left) { return left > 0; }); ++name) {
      const std::string path = "/set/chunks/" + std::to_string(name) + ".tar";
      const std::string target = encode_target({path, {.size = kPieceBytes}});
      size_t& left = owned[owner_of(base::sha256(base::as_bytes(target)), 0, members)];
      if (left == 0) continue;
      --left;
      base::ByteVector bytes(kPieceBytes);
      for (uint64_t at = 0; at < bytes.size(); at += 4096) {
        const uint64_t word = random.next_u64();
        std::memcpy(bytes.data() + at, &word, sizeof(word));
      }
      ASSERT_TRUE(disk_.put(path, bytes).ok());
      paths_.push_back(path);
    }
  }
  uint64_t set_bytes() const { return paths_.size() * kPieceBytes; }

  struct Counts {
    uint64_t origin_bytes = 0;
    uint64_t requests = 0;  // to other members
    uint64_t failures = 0;
  };
  Counts counts() const {
    Counts counts;
    for (const Machine& machine : job_) {
      if (machine.cache == nullptr) continue;
      const CacheStats stats = machine.cache->stats();
      counts.origin_bytes += stats.origin_bytes;
      counts.requests += stats.peers.requests;
      counts.failures += stats.peers.failures;
    }
    return counts;
  }
  // Reads the dataset in a shuffled order, the machines taking turns, and compares the bytes.
  Counts epoch(uint64_t seed) {
    const Counts before = counts();
    std::vector<std::pair<size_t, uint64_t>> reads;
    for (size_t file = 0; file < paths_.size(); ++file) {
      for (uint64_t read = 0; read < kFileReads; ++read) reads.emplace_back(file, read);
    }
    base::Random random(seed, base::Purpose::kTest);
    for (size_t i = reads.size(); i > 1; --i) std::swap(reads[i - 1], reads[random.below(i)]);
    base::ByteVector out(kReadBytes);
    for (size_t i = 0; i < reads.size(); ++i) {
      const Machine* reader = &job_[i % kMachines];
      if (reader->cache == nullptr) reader = &job_[(i + 1) % kMachines];
      const std::string& path = paths_[reads[i].first];
      const auto file =
          reader->origin
              ->open(path, {.known = io::Identity{.size = kPieceBytes}, .copies = io::Copies::kAny})
              .value();
      const uint64_t offset = reads[i].second * kReadBytes;
      EXPECT_TRUE(file->read(offset, out).ok());
      EXPECT_EQ(std::memcmp(out.data(), disk_.content(path).data() + offset, out.size()), 0);
    }
    const Counts after = counts();
    return {after.origin_bytes - before.origin_bytes, after.requests - before.requests,
            after.failures - before.failures};
  }

  // Damages a word of a file on all machines but the first one that hold it; returns how many do.
  uint64_t damage_held(const std::string& path, uint64_t offset) const {
    const auto id = base::sha256(base::as_bytes(encode_target({path, {.size = kPieceBytes}})));
    uint64_t damaged = 0;
    for (size_t i = 1; i < kMachines; ++i) {
      std::fstream held(folder_ + "/" + std::to_string(i) + "/held/" + base::to_hex(id),
                        std::ios::in | std::ios::out | std::ios::binary);
      uint64_t word = 0;
      held.seekg(static_cast<std::streamoff>(offset));
      if (!held.read(reinterpret_cast<char*>(&word), sizeof(word)) || word == 0) continue;
      word = ~word;
      held.seekp(static_cast<std::streamoff>(offset));
      held.write(reinterpret_cast<const char*>(&word), sizeof(word));
      ++damaged;
    }
    return damaged;
  }

  const std::string folder_;
  uint64_t room_bytes_ = 0;
  io::MemoryFileSystem disk_;
  std::shared_ptr<io::FarOrigin> far_ = std::make_shared<io::FarOrigin>(disk_);
  std::array<Machine, kMachines> job_;
  std::vector<std::string> paths_;
};

TEST_F(OverflowTest, ASetThatFitsTheJobIsFetchedOnceThoughOneShareDoesNotFitItsMachine) {
  ASSERT_NO_FATAL_FAILURE(start(15 * kPieceBytes * 100 / (kMachines * 95), {7, 4, 2, 2}));
  const Counts first = epoch(1);
  RecordProperty("origin_bytes_1", std::to_string(first.origin_bytes));
  EXPECT_LE(first.origin_bytes, set_bytes() * 101 / 100);
  for (const uint64_t number : {2u, 3u}) {
    const Counts counted = epoch(number);
    RecordProperty("origin_bytes_" + std::to_string(number), std::to_string(counted.origin_bytes));
    EXPECT_LE(counted.origin_bytes, set_bytes() / 100) << number;
    EXPECT_EQ(counted.failures, 0u);
  }
  uint64_t handed_over = 0;
  for (const Machine& machine : job_) handed_over += machine.cache->stats().handed_over_bytes;
  EXPECT_GE(handed_over, 3 * kPieceBytes);
}

TEST_F(OverflowTest, OfWhatAFullMachineHoldsForAnotherOnlyTheDamagedPartIsFetchedAgain) {
  // The first machine owns all.
  ASSERT_NO_FATAL_FAILURE(start(6 * kPieceBytes / kMachines, {6, 0, 0, 0}));
  epoch(1);
  uint64_t damaged = 0;
  for (const std::string& path : paths_) {
    const auto file =
        job_[0]
            .origin
            ->open(path, {.known = io::Identity{.size = kPieceBytes}, .copies = io::Copies::kAny})
            .value();
    base::ByteVector out(kPieceBytes);
    const auto read = [&] {
      const uint64_t before = counts().origin_bytes;
      EXPECT_TRUE(file->read(0, out).ok());
      EXPECT_TRUE(std::ranges::equal(out, disk_.content(path)));
      return counts().origin_bytes - before;
    };
    const uint64_t missing = read();
    const uint64_t copies = damage_held(path, kPieceBytes / 2);
    EXPECT_LE(read(), missing + copies * kExtentBytes);
    damaged += copies;
  }
  EXPECT_GT(damaged, 0u);
}

TEST_F(OverflowTest, WhereAllAreFullNobodyIsAskedInVainForLong) {
  ASSERT_NO_FATAL_FAILURE(start(8 * kPieceBytes / kMachines, {4, 4, 4, 4}));
  const uint64_t reads = paths_.size() * kFileReads;
  epoch(1);
  for (const uint64_t number : {2u, 3u, 4u}) {
    const Counts counted = epoch(number);
    // All room is used, except for less than one read on each machine.
    EXPECT_LE(counted.origin_bytes, set_bytes() - 8 * kPieceBytes + kMachines * kReadBytes);
    // A read that another machine owns takes one request. Former owners are asked now and then.
    EXPECT_LE(counted.requests, reads + reads / 32 + 2 * kMachines * kMachines);
    EXPECT_EQ(counted.failures, 0u);
  }
}

TEST_F(OverflowTest, WhatWasHandedOverIsFoundAfterARestart) {
  ASSERT_NO_FATAL_FAILURE(start(6 * kPieceBytes * 100 / (kMachines * 90), {3, 1, 1, 1}));
  epoch(1);
  const uint64_t handed_over = job_[0].cache->stats().handed_over_bytes;
  EXPECT_GE(handed_over, kPieceBytes);
  const Member seed = job_[1].cache->machine();
  job_[0] = {};
  ASSERT_TRUE(all_know(kMachines - 1));
  job_[0] = open(0);
  job_[0].cache->join({seed});
  ASSERT_TRUE(all_know(kMachines));
  EXPECT_EQ(job_[0].cache->stats().handed_over_bytes, 0u);
  EXPECT_LE(epoch(2).origin_bytes, set_bytes() / 100);
  EXPECT_GE(job_[0].cache->stats().handed_over_bytes, handed_over);
}

TEST_F(OverflowTest, WhatAMachineHeldForAnotherIsFetchedAgainOnceItIsGone) {
  ASSERT_NO_FATAL_FAILURE(start(6 * kPieceBytes * 2 / kMachines, {6, 0, 0, 0}));
  epoch(1);
  const uint64_t held = job_[3].cache->stats().store.held.disk;
  EXPECT_GT(job_[1].cache->stats().store.held.disk + job_[2].cache->stats().store.held.disk + held,
            2 * kPieceBytes);
  job_[3] = {};
  ASSERT_TRUE(all_know(kMachines - 1));
  EXPECT_LE(epoch(2).origin_bytes, held + kReadBytes);
  const Counts third = epoch(3);
  EXPECT_EQ(third.origin_bytes, 0u);
  EXPECT_EQ(third.failures, 0u);
}

TEST_F(OverflowTest, WrongBytesThatAnotherHoldsForAFullMachineAreForgotten) {
  ASSERT_NO_FATAL_FAILURE(start(15 * kPieceBytes * 100 / (kMachines * 95), {7, 4, 2, 2}));
  std::vector<Member> members;
  for (const Machine& machine : job_) members.push_back(machine.cache->machine());
  std::erase_if(paths_, [&](const std::string& path) {
    const std::string target = encode_target({path, {.size = kPieceBytes}});
    return owner_of(base::sha256(base::as_bytes(target)), 0, members) != 0;
  });
  const auto read = [&](size_t reader, const std::string& path, io::Copies copies) {
    const auto file = job_[reader].origin->open(
        path, {.known = io::Identity{.size = kPieceBytes}, .copies = copies});
    base::ByteVector out(kReadBytes);
    EXPECT_TRUE((*file)->read(0, out).ok());
    return std::memcmp(out.data(), disk_.content(path).data(), out.size()) == 0;
  };
  base::ByteVector out(kPieceBytes);
  for (size_t i = 0; i < 5; ++i) {
    const auto file = job_[0].origin->open(
        paths_[i], {.known = io::Identity{.size = kPieceBytes}, .copies = io::Copies::kAny});
    ASSERT_TRUE((*file)->read(0, out).ok());
  }
  ASSERT_GT(job_[0].cache->stats().handed_over_bytes, 0u);
  for (const size_t reader : {0u, 1u}) {
    const std::string& path = paths_[5 + reader];
    far_->damage(path, 1);
    EXPECT_FALSE(read(reader, path, io::Copies::kAny));
    EXPECT_TRUE(read(reader, path, io::Copies::kAnew));
    // It takes a moment until the owner learns of it from another machine.
    bool is_right = false;
    for (int tries = 0; !is_right && tries < 1000; ++tries, ::usleep(1000)) {
      is_right = read(0, path, io::Copies::kAny);
    }
    EXPECT_TRUE(is_right);
  }
}

}  // namespace
}  // namespace forebay::cache
