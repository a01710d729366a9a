// Prefetching into the cache.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <future>
#include <thread>

#include "base/random.h"
#include "cache/cached_origin.h"
#include "cache/peers/file_name.h"
#include "cache/testing/job_secret.h"
#include "io/machine.h"
#include "io/testing/far_origin.h"
#include "io/testing/memory.h"

namespace forebay::cache {
namespace {

using io::PrefetchOutcome;

constexpr uint64_t kFileBytes = 20'000'000;  // two pieces
constexpr uint64_t kStep = 1'000'000;

bool comes_true(const std::function<bool()>& condition) {
  const int64_t deadline_ns = io::monotonic_ns() + 10'000'000'000;
  while (!condition() && io::monotonic_ns() < deadline_ns) ::usleep(1000);
  return condition();
}

// A remote origin whose reads block their threads, like those of a shared file system.
class WaitingOrigin final : public io::Origin {
 public:
  explicit WaitingOrigin(const io::Origin& below) : far_(below) {}
  Result<std::unique_ptr<io::ReadableFile>> open(const std::string& path,
                                                 const io::OpenOptions& options) const override {
    return far_.open(path, options);
  }
  Result<std::vector<io::DirEntry>> list(const std::string& path) const override {
    return far_.list(path);
  }
  Result<io::FileInfo> stat(const std::string& path) const override { return far_.stat(path); }
  std::string canonical(const std::string& path) const override { return far_.canonical(path); }
  bool is_remote(const std::string&) const override { return false; }
  io::FarOrigin& far() { return far_; }

 private:
  io::FarOrigin far_;
};

class PrefetchTest : public ::testing::Test {
 protected:
  struct Machine {
    std::shared_ptr<Cache> cache;
    std::unique_ptr<CachedOrigin> origin;
  };

  PrefetchTest() : folder_(::testing::TempDir() + "/ahead_test_" + std::to_string(::getpid())) {
    base::Random random(5, base::Purpose::kTest);
    bytes_.resize(kFileBytes);
    for (uint8_t& byte : bytes_) byte = static_cast<uint8_t>(random.next_u32());
    for (const char* const path : {"/set/a.tar", "/set/b.tar"}) {
      EXPECT_TRUE(disk_.put(path, bytes_).ok());
    }
  }
  ~PrefetchTest() override { std::filesystem::remove_all(folder_); }

  Machine start(int number, uint64_t room = 1u << 30) const {
    auto cache = Cache::open({.folder = folder_ + "/" + std::to_string(number),
                              .disk_bytes_max = room,
                              .secret = job_secret()});
    EXPECT_TRUE(cache.has_value()) << base::status_of(cache).message();
    return {*cache, std::make_unique<CachedOrigin>(origin_, *cache, "/set")};
  }
  static std::unique_ptr<io::ReadableFile> open(const Machine& machine, const std::string& path) {
    return machine.origin
        ->open(path, {.known = io::Identity{.size = kFileBytes}, .copies = io::Copies::kAny})
        .value();
  }
  // Asks for a prefetch of steps from this number on, and returns the answer.
  static PrefetchOutcome ask(const Machine& machine, const std::string& path, uint64_t step,
                             uint64_t steps = 1) {
    const auto file = open(machine, path);
    std::promise<PrefetchOutcome> answer;
    dynamic_cast<const io::Prefetchable&>(*file).prefetch(
        {{step * kStep, steps * kStep}}, {},
        [&](PrefetchOutcome ahead) { answer.set_value(ahead); });
    return answer.get_future().get();
  }
  // Asks for a step until the answer is not kBusy any more.
  static PrefetchOutcome ask_until_free(const Machine& machine, const std::string& path,
                                        uint64_t step) {
    const int64_t deadline_ns = io::monotonic_ns() + 10'000'000'000;
    PrefetchOutcome answer = PrefetchOutcome::kBusy;
    while (answer == PrefetchOutcome::kBusy && io::monotonic_ns() < deadline_ns) {
      ::usleep(1000);
      answer = ask(machine, path, step);
    }
    return answer;
  }
  // Reads a step and compares its bytes.
  void read(const Machine& machine, const std::string& path, uint64_t step) const {
    base::ByteVector out(kStep);
    ASSERT_TRUE(open(machine, path)->read(step * kStep, out).ok());
    EXPECT_EQ(std::memcmp(out.data(), bytes_.data() + step * kStep, kStep), 0);
  }

  const std::string folder_;
  base::ByteVector bytes_;
  io::MemoryFileSystem disk_;
  std::shared_ptr<WaitingOrigin> origin_ = std::make_shared<WaitingOrigin>(disk_);
};

TEST_F(PrefetchTest, WhatWasFetchedAheadIsThereAndEachByteComesOnce) {
  const Machine machine = start(0);
  for (uint64_t step = 0; step < kFileBytes / kStep; ++step) {
    EXPECT_EQ(ask_until_free(machine, "/set/a.tar", step), PrefetchOutcome::kComing);
    if (step % 3 == 0) read(machine, "/set/a.tar", step);  // perhaps while it comes
  }
  ASSERT_TRUE(comes_true(
      [&] { return ask(machine, "/set/a.tar", 0, kFileBytes / kStep) == PrefetchOutcome::kKept; }));
  for (uint64_t step = 0; step < kFileBytes / kStep; ++step) read(machine, "/set/a.tar", step);
  EXPECT_GT(machine.cache->stats().ahead_bytes, 0u);
  EXPECT_EQ(machine.cache->stats().origin_bytes, kFileBytes);
}

TEST_F(PrefetchTest, MoreRangesThanARequestMayHaveAreAskedForInSeveral) {
  const Machine server = start(0);
  const Machine other = start(0);
  std::vector<WantedRange> ranges;
  for (uint64_t i = 0; i < 200; ++i) ranges.push_back({i * 10'000, 1000});
  const auto file = open(other, "/set/a.tar");
  const auto ask = [&] {
    std::promise<PrefetchOutcome> answer;
    dynamic_cast<const io::Prefetchable&>(*file).prefetch(
        ranges, {}, [&](PrefetchOutcome ahead) { answer.set_value(ahead); });
    return answer.get_future().get();
  };
  EXPECT_TRUE(comes_true([&] { return ask() == PrefetchOutcome::kKept; }));
  EXPECT_EQ(server.cache->stats().ahead_bytes, 200'000u);
}

TEST_F(PrefetchTest, AnotherMachineFetchesWhatItOwnsAndSendsNothing) {
  const Machine one = start(0);
  const Machine other = start(1);
  for (const Machine* machine : {&one, &other}) {
    machine->cache->join({one.cache->machine(), other.cache->machine()});
  }
  ASSERT_TRUE(comes_true(
      [&] { return one.cache->stats().members == 2 && other.cache->stats().members == 2; }));
  // There are enough pieces that both machines own some.
  std::vector<std::string> paths;
  for (int i = 0; i < 8; ++i) {
    paths.push_back("/set/more" + std::to_string(i) + ".tar");
    ASSERT_TRUE(disk_.put(paths.back(), bytes_).ok());
  }
  for (const std::string& path : paths) {
    for (const uint64_t step : {1u, 18u}) {  // in both pieces
      EXPECT_EQ(ask_until_free(one, path, step), PrefetchOutcome::kComing);
    }
  }
  const auto ahead = [](const Machine& machine) { return machine.cache->stats().ahead_bytes; };
  ASSERT_TRUE(comes_true([&] { return ahead(one) + ahead(other) == 16 * kStep; }));
  EXPECT_GT(ahead(one), 0u);
  EXPECT_GT(ahead(other), 0u);
  EXPECT_EQ(one.cache->stats().peers.hit_bytes, 0u);
  EXPECT_EQ(other.cache->stats().served.bytes, 0u);
  for (const std::string& path : paths) {
    for (const uint64_t step : {1u, 18u}) read(one, path, step);
  }
  EXPECT_EQ(one.cache->stats().origin_bytes + other.cache->stats().origin_bytes, 16 * kStep);
}

TEST_F(PrefetchTest, NothingBeginsWhileSomebodyWaitsForTheOrigin) {
  const Machine machine = start(0);
  origin_->far().hold("a.tar");
  std::stop_source stop;
  std::jthread reader([&] {
    base::ByteVector out(kStep);
    const Status status =
        open(machine, "/set/a.tar")->read(0, out, {.deadline_ns = {}, .stop = stop.get_token()});
    EXPECT_EQ(status.code(), base::Code::kCancelled);
  });
  origin_->far().wait_for_reader();
  for (uint64_t step = 0; step < 5; ++step) {
    EXPECT_EQ(ask(machine, "/set/b.tar", step), PrefetchOutcome::kBusy);
  }
  EXPECT_EQ(machine.cache->stats().origin_bytes, 0u);
  stop.request_stop();
  reader.join();
  EXPECT_EQ(ask_until_free(machine, "/set/b.tar", 0), PrefetchOutcome::kComing);
}

TEST_F(PrefetchTest, FewAreInFlightAtOnceAndTheEndWaitsForNone) {
  Machine machine = start(0);
  origin_->far().hold("a.tar");
  uint64_t coming = 0;
  while (ask(machine, "/set/a.tar", coming) == PrefetchOutcome::kComing) ++coming;
  EXPECT_EQ(coming, 4u);
  EXPECT_EQ(ask(machine, "/set/b.tar", 0), PrefetchOutcome::kBusy);
  // A read that is needed now does not wait for the prefetches.
  read(machine, "/set/b.tar", 3);
  machine.origin.reset();
  machine.cache.reset();
}

TEST_F(PrefetchTest, NothingMakesRoomForIt) {
  const Machine machine = start(0, 5'200'000);
  base::ByteVector out(kStep);
  const auto file = open(machine, "/set/a.tar");
  ASSERT_TRUE(io::read_ranges(*file, {{0, out, io::Again::kLater}}).ok());
  for (uint64_t step = 1; step < 5; ++step) {
    EXPECT_EQ(ask_until_free(machine, "/set/a.tar", step), PrefetchOutcome::kComing);
    ASSERT_TRUE(
        comes_true([&] { return ask(machine, "/set/a.tar", step) == PrefetchOutcome::kKept; }));
  }
  EXPECT_EQ(ask_until_free(machine, "/set/a.tar", 5), PrefetchOutcome::kFull);
  EXPECT_EQ(machine.cache->stats().store.dropped_bytes, 0u);
  read(machine, "/set/a.tar", 0);
  EXPECT_EQ(machine.cache->stats().origin_bytes, 5 * kStep);
}

TEST_F(PrefetchTest, WhatIsOnItsWayMayTakeTheRoom) {
  const Machine machine = start(0, 1'600'000);
  origin_->far().hold("a.tar");
  EXPECT_EQ(ask(machine, "/set/a.tar", 0), PrefetchOutcome::kComing);
  origin_->far().wait_for_reader();
  EXPECT_EQ(ask(machine, "/set/b.tar", 0), PrefetchOutcome::kBusy);
  EXPECT_EQ(ask(machine, "/set/b.tar", 0, 2), PrefetchOutcome::kFull);  // never fits
}

TEST_F(PrefetchTest, WhereTheOriginFailsNothingIsAskedForAWhile) {
  const Machine machine = start(0);
  ASSERT_TRUE(disk_.remove("/set/b.tar").ok());
  EXPECT_EQ(ask(machine, "/set/b.tar", 0), PrefetchOutcome::kComing);
  const auto is_busy = [&] { return ask(machine, "/set/b.tar", 0) == PrefetchOutcome::kBusy; };
  ASSERT_TRUE(comes_true(is_busy));
  read(machine, "/set/a.tar", 1);  // bytes that are needed now are still read
  EXPECT_EQ(ask_until_free(machine, "/set/a.tar", 2), PrefetchOutcome::kComing);
}

}  // namespace
}  // namespace forebay::cache
