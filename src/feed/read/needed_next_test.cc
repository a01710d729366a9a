// What the feed tells a cache about the bytes that it reads: whether the next epoch needs them.
#include "feed/read/needed_next.h"

#include <unistd.h>

#include <deque>
#include <filesystem>
#include <map>
#include <set>

#include "cache/cached_origin.h"
#include "feed/read/slicer.h"
#include "feed/testing/remote_fixture.h"

namespace forebay::feed {
namespace {

using base::Random;
using io::Again;

std::vector<ChunkRun> draw_runs(Random& random, uint64_t gap) {
  std::vector<ChunkRun> runs;
  for (uint32_t chunk = 0; chunk < 3; ++chunk) {
    for (uint64_t at = random.below(gap); at < 60'000;) {
      const uint64_t length = 1 + random.below(9000);
      runs.push_back({.chunk = chunk, .range = {.offset = at, .length = length}});
      at += length + 1 + random.below(gap);
    }
  }
  return runs;
}

TEST(NeededNext, RunsAreCutBetweenBlocksThatAreNeededAndOthers) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed, base::Purpose::kTest);
    const auto runs = draw_runs(random, 3000);
    std::vector<WantedBytes> needed;
    std::set<std::pair<uint32_t, uint64_t>> bytes;  // bytes that are needed
    for (const ChunkRun& run : draw_runs(random, 20'000)) {
      needed.push_back({.of = run});
      for (uint64_t at = 0; at < run.range.length; ++at) {
        bytes.emplace(run.chunk, run.range.offset + at);
      }
    }
    // Whether a block is read as a whole, and whether all of it is needed.
    const auto is_whole = [](const ChunkRun& run, uint64_t block) {
      return block >= run.range.offset &&
             block + kKeptBlockBytes <= run.range.offset + run.range.length;
    };
    const auto is_needed = [&](uint32_t chunk, uint64_t block) {
      const auto first = bytes.find({chunk, block});
      return first != bytes.end() && bytes.contains({chunk, block + kKeptBlockBytes - 1}) &&
             std::distance(first, bytes.find({chunk, block + kKeptBlockBytes - 1})) ==
                 kKeptBlockBytes - 1;
    };
    const auto is_near = [&](uint32_t chunk, uint64_t at) {
      const auto next = bytes.lower_bound({chunk, at});
      return next != bytes.end() && next->first == chunk && next->second <= at + kKeptBlockBytes;
    };
    base::shuffle(std::span(needed), random);
    const auto parts = cut_runs(runs, needed);
    ASSERT_FALSE(parts.empty());
    auto part = parts.begin();
    for (size_t run = 0; run < runs.size(); ++run) {
      uint64_t at = runs[run].range.offset;
      const uint64_t end = at + runs[run].range.length;
      for (Again before = Again::kSoon; at < end; ++part) {
        ASSERT_EQ(part->run, run);
        ASSERT_EQ(part->range.offset, at);
        EXPECT_TRUE(at == runs[run].range.offset || part->again != before);
        before = part->again;
        for (const uint64_t until = at + part->range.length; at < until; ++at) {
          const bool is_soon = part->again == Again::kSoon;
          const uint64_t block = at / kKeptBlockBytes * kKeptBlockBytes;
          ASSERT_TRUE(is_soon || !is_whole(runs[run], block) || !is_needed(runs[run].chunk, block));
          ASSERT_TRUE(!is_soon || is_near(runs[run].chunk, at));
        }
      }
      EXPECT_EQ(at, end);
    }
    EXPECT_EQ(part, parts.end());
  }
}

TEST(NeededNext, WhereAllIsNeededNothingIsCut) {
  const std::vector<ChunkRun> runs{{.chunk = 1, .range = {1000, 9000}}};
  EXPECT_TRUE(cut_runs(runs, {{.of = {1, {0, 3000}}}, {.of = {1, {5000, 5000}}}}).empty());
  const auto parts = cut_runs(runs, {{.of = {1, {0, 5000}}}, {.of = {1, {9500, 500}}}});
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].again, Again::kSoon);
  EXPECT_EQ(parts[1].range.offset, 4096u);
  EXPECT_EQ(cut_runs(runs, {{.of = {0, {0, 30'000}}}, {.of = {2, {0, 30'000}}}}).size(), 1u);
}

// Stands before a cache: it may hide from the feed that there is a cache, and may take only one
// range in a request.
class Front final : public io::Origin {
 public:
  Front(std::shared_ptr<const io::Origin> below, bool keeps_copies, size_t ranges_max)
      : below_(std::move(below)), keeps_copies_(keeps_copies), ranges_max_(ranges_max) {}
  Result<std::unique_ptr<io::ReadableFile>> open(const std::string& path,
                                                 const io::OpenOptions& options) const override {
    return below_->open(path, options);
  }
  bool is_remote(const std::string&) const override { return true; }
  bool keeps_copies(const std::string&) const override { return keeps_copies_; }
  size_t ranges_max(const std::string&) const override { return ranges_max_; }
  Result<std::vector<io::DirEntry>> list(const std::string& path) const override {
    return below_->list(path);
  }
  Result<io::FileInfo> stat(const std::string& path) const override { return below_->stat(path); }
  std::string canonical(const std::string& path) const override { return path; }

 private:
  const std::shared_ptr<const io::Origin> below_;
  const bool keeps_copies_;
  const size_t ranges_max_;
};

class NeededNextTest : public RemoteTest {
 protected:
  NeededNextTest()
      : folder_(::testing::TempDir() + "/needed_next_test_" + std::to_string(::getpid())) {}
  ~NeededNextTest() override { std::filesystem::remove_all(folder_); }

  static std::vector<Slice> slices(const std::shared_ptr<const store::Dataset>& set,
                                   FeedOptions options, uint64_t epoch) {
    std::vector<Slice> out;
    for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
      ChunkIndexes indexes(*set, 1u << 30);
      const Slicer slicer(*set, options, indexes);
      const Planner planner(set, options, options.order);
      const auto plan = planner.plan(planner.epoch_from(epoch), {}).value();
      for (const Load& load : plan->loads) {
        const auto group = slicer.share(*plan, load.group);
        out.push_back(slicer.slice(*plan, load, *group, {}).value());
      }
    }
    return out;
  }

  struct Epochs {
    std::vector<std::vector<SeenBatch>> batches;
    uint64_t first_bytes = 0;  // from the origin in the first epoch
    uint64_t bytes = 0;        // in later epochs
    size_t ranges = 0;         // of all requests to the origin, including one more epoch
  };
  // Some epochs with a cache of this size.
  Epochs run(uint64_t room, bool says_when_needed, size_t ranges_max) {
    static const bool is_packed = [] {
      pack_remote_images(*fs_, "/many", 192, false, 4'000'000);
      return true;
    }();
    EXPECT_TRUE(is_packed);
    auto remote = std::make_shared<RemoteOrigin>(*fs_);
    const auto cache = cache::Cache::open({.folder = folder_, .disk_bytes_max = room}).value();
    const auto cached = std::make_shared<cache::CachedOrigin>(remote, cache, "/many");
    const Front front(cached, says_when_needed, ranges_max);
    Epochs out;
    const auto set = dataset(front, "/many");
    FeedOptions wanted = options();
    wanted.memory_bytes_max = least_memory(set, wanted);  // little is read ahead of an epoch
    auto feed = start(set, wanted);
    remote->forget();
    const uint64_t before = cache->stats().origin_bytes;
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      EXPECT_TRUE(epoch == 0 || feed->start({.epoch = epoch}).ok());
      if (epoch == 1) out.first_bytes = cache->stats().origin_bytes - before;
      out.batches.push_back(rest(*feed));
    }
    out.bytes = cache->stats().origin_bytes - before - out.first_bytes;
    // How much of the next epoch has been read ahead varies, so that epoch is counted as a whole.
    feed.reset();
    wanted.next_epoch = false;
    feed = start(set, wanted, {.epoch = kEpochs});
    rest(*feed);
    for (const auto& asked : remote->asked()) out.ranges += asked.ranges.size();
    return out;
  }

  // How many ranges the origin is asked for if the cache has room for everything. Requests that
  // wait at the same time may be joined, so the number varies by some percent.
  size_t median_ranges(bool says_when_needed, size_t ranges_max) {
    std::vector<size_t> counts;
    for (int turn = 0; turn < 3; ++turn) {
      counts.push_back(run(1u << 30, says_when_needed, ranges_max).ranges);
    }
    std::ranges::sort(counts);
    return counts[1];
  }

  static constexpr uint64_t kEpochs = 6;
  const std::string folder_;
};

TEST_F(NeededNextTest, WhatIsNeededLaterIsNotReadInTheNextEpoch) {
  FeedOptions wanted = options();
  wanted.world_size = 2;
  const auto set = [&](bool keeps_copies, size_t ranges_max) {
    static std::deque<Front> fronts;
    auto remote = std::make_shared<RemoteOrigin>(*fs_);
    return dataset(fronts.emplace_back(remote, keeps_copies, ranges_max), "/photos");
  };
  for (const size_t ranges_max : {size_t{1}, size_t{64}}) {
    std::map<uint32_t, std::vector<bool>> needed;  // the bytes of each chunk
    for (const Slice& slice : slices(set(true, ranges_max), wanted, 5)) {
      for (const SlicedSample& sample : slice.samples) {
        for (const auto& [run, range] : sample.places) {
          std::vector<bool>& bytes = needed[slice.runs[run].chunk];
          bytes.resize(std::max<uint64_t>(bytes.size(), range.offset + range.length));
          for (uint64_t at = 0; at < range.length; ++at) bytes[range.offset + at] = true;
        }
      }
    }
    uint64_t soon = 0;
    uint64_t later = 0;
    uint64_t soon_and_needed = 0;
    uint64_t later_and_needed = 0;
    for (const Slice& slice : slices(set(true, ranges_max), wanted, 4)) {
      for (const RunPiece& part : slice.parts) {
        const bool is_soon = part.again == Again::kSoon;
        (is_soon ? soon : later) += part.range.length;
        const std::vector<bool>& bytes = needed[slice.runs[part.run].chunk];
        const uint64_t end =
            std::min<uint64_t>(bytes.size(), part.range.offset + part.range.length);
        for (uint64_t at = part.range.offset; at < end; ++at) {
          if (bytes[at]) ++(is_soon ? soon_and_needed : later_and_needed);
        }
      }
    }
    EXPECT_GT(later, soon / 10);
    EXPECT_GT(soon_and_needed,
              soon * 60 / 100);                         // other bytes lie between needed ones
    EXPECT_LT(later_and_needed, soon_and_needed / 10);  // parts of blocks
  }
  for (const Slice& slice : slices(set(false, 64), wanted, 4)) EXPECT_TRUE(slice.parts.empty());
}

TEST_F(NeededNextTest, ASmallCacheKeepsWhatTheNextEpochNeeds) {
  for (const size_t ranges_max : {size_t{1}, size_t{64}}) {
    SCOPED_TRACE(ranges_max);
    const Epochs whole = run(1u << 30, true, ranges_max);
    const size_t asked = median_ranges(true, ranges_max);
    const size_t asked_untold = median_ranges(false, ranges_max);
    EXPECT_LT(asked, asked_untold + asked_untold / 20);
    const uint64_t room = whole.first_bytes / 2;
    const Epochs told = run(room, true, ranges_max);
    const Epochs untold = run(room, false, ranges_max);
    EXPECT_TRUE(told.batches == whole.batches);
    EXPECT_TRUE(untold.batches == whole.batches);
    const double share = static_cast<double>(told.bytes) / static_cast<double>(untold.bytes);
    RecordProperty(fmt::format("share_{}", ranges_max), fmt::format("{:.3f}", share));
    EXPECT_LT(share, 0.97);
  }
}

}  // namespace
}  // namespace forebay::feed
