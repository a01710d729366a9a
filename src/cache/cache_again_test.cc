// Members of a cache tell each other which bytes are needed again soon.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "cache/cached_origin.h"
#include "cache/testing/job_secret.h"
#include "io/machine.h"
#include "io/testing/far_origin.h"
#include "io/testing/memory.h"

namespace forebay::cache {
namespace {

constexpr uint64_t kFileBytes = 16'000'000;
const std::string kPath = "/set/chunks/0.tar";

struct Machine {
  std::shared_ptr<Cache> cache;
  std::unique_ptr<CachedOrigin> origin;
};

TEST(CacheAgain, AnotherMemberIsToldWhatIsNeededSoon) {
  io::MemoryFileSystem disk;
  ASSERT_TRUE(disk.put(kPath, base::ByteVector(kFileBytes)).ok());
  const auto far = std::make_shared<io::FarOrigin>(disk);
  const std::string folder =
      ::testing::TempDir() + "/cache_again_test_" + std::to_string(::getpid());
  const std::shared_ptr<void> removed_at_the_end(
      nullptr, [&](void*) { std::filesystem::remove_all(folder); });
  const auto start = [&](const std::string& name, uint64_t room) {
    auto cache =
        Cache::open({.folder = folder + name, .disk_bytes_max = room, .secret = job_secret()})
            .value();
    return Machine{cache, std::make_unique<CachedOrigin>(far, cache, "/set")};
  };
  const Machine reader = start("/reader", 1);
  const Machine owner = start("/owner", 9'000'000);
  for (const Machine* machine : {&reader, &owner}) {
    machine->cache->join({reader.cache->machine(), owner.cache->machine()});
  }
  const auto know_each_other = [&] {
    return reader.cache->stats().members == 2 && owner.cache->stats().members == 2;
  };
  const int64_t deadline_ns = io::monotonic_ns() + 5'000'000'000;
  while (!know_each_other() && io::monotonic_ns() < deadline_ns) ::usleep(1000);
  ASSERT_TRUE(know_each_other());
  const auto file =
      reader.origin
          ->open(kPath, {.known = io::Identity{.size = kFileBytes}, .copies = io::Copies::kAny})
          .value();
  base::ByteVector out(kFileBytes);
  const auto read = [&](std::vector<std::pair<uint64_t, io::Again>> millions) {
    std::vector<io::Range> ranges;
    for (const auto& [million, again] : millions) {
      const uint64_t at = million * 1'000'000;
      ranges.push_back({at, base::MutableBytes(out).subspan(at, 1'000'000), again});
    }
    const uint64_t before = owner.cache->stats().origin_bytes;
    EXPECT_TRUE(io::read_ranges(*file, ranges).ok());
    return owner.cache->stats().origin_bytes - before;
  };
  const auto kSoon = io::Again::kSoon;
  const auto kLater = io::Again::kLater;
  EXPECT_EQ(read({{0, kSoon}, {1, kLater}, {2, kSoon}, {3, kLater}, {4, kLater}}), 5'000'000u);
  EXPECT_EQ(read({{6, kSoon}, {7, kSoon}, {8, kSoon}, {9, kSoon}, {10, kSoon}}), 5'000'000u);
  EXPECT_EQ(read({{0, kSoon}, {2, kSoon}}), 0u);
  // For held bytes the last statement counts from now on.
  EXPECT_EQ(read({{6, kLater}, {7, kLater}, {8, kSoon}, {9, kSoon}, {10, kSoon}}), 0u);
  EXPECT_GT(read({{12, kSoon}, {13, kSoon}, {14, kSoon}}), 0u);
  EXPECT_EQ(read({{0, kSoon}, {2, kSoon}, {8, kSoon}, {9, kSoon}, {10, kSoon}}), 0u);
  EXPECT_EQ(read({{12, kSoon}, {13, kSoon}, {14, kSoon}}), 0u);
  const CacheStats stats = reader.cache->stats();
  EXPECT_EQ(stats.origin_bytes, 0u);
  EXPECT_EQ(stats.peers.failures, 0u);
}

}  // namespace
}  // namespace forebay::cache
