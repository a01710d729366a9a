// Remote datasets when something goes wrong, and with little memory.
#include <cstring>
#include <numeric>

#include "feed/starting.h"
#include "feed/testing/remote_fixture.h"

namespace forebay::feed {
namespace {

TEST_F(RemoteTest, WhatIsDamagedOnItsWayIsReadAgain) {
  for (const Regions regions : {Regions::kAuto, Regions::kNever}) {
    FeedOptions wanted = options();
    wanted.regions = regions;
    const auto local = dataset(*fs_);
    const auto near = start(local, wanted);
    RemoteOrigin remote(*fs_);
    const auto packed = dataset(remote);
    for (uint64_t sample = 0; sample < packed->sample_count(); sample += 5) {
      const store::Location location = local->location(sample);
      // A byte of the header, or of a segment.
      const uint32_t at = sample % 2 == 0 ? 10 : location.length / 2;
      remote.damage(packed->chunk_label(location.chunk), location.offset + at, 1);
    }
    const auto far = start(packed, wanted);
    EXPECT_TRUE(rest(*far) == rest(*near));
    EXPECT_TRUE(far->state().bad.empty());
  }
}

TEST_F(RemoteTest, WhatIsDamagedEachTimeIsABadSample) {
  for (const Regions regions : {Regions::kAuto, Regions::kNever}) {
    FeedOptions wanted = options();
    wanted.regions = regions;
    RemoteOrigin remote(*fs_);
    const auto packed = dataset(remote);
    const store::Location location = dataset(*fs_)->location(17);
    const std::string path = packed->chunk_label(location.chunk);
    for (uint32_t at = 0; at < location.length; ++at) {
      remote.damage(path, location.offset + at, 1 << 20);
    }
    io::MemoryFileSystem copy;
    copy_mixed(copy);
    copy.content(path)[location.offset + location.length / 2] ^= 0x10;
    const auto near = start(dataset(copy), wanted);
    const auto far = start(packed, wanted);
    EXPECT_TRUE(rest(*far) == rest(*near));
    ASSERT_EQ(far->state().bad.size(), 1u);
    EXPECT_EQ(far->state().bad[0].sample, 17u);
    EXPECT_EQ(far->state().bad[0].reason, near->state().bad[0].reason);
  }
}

TEST_F(RemoteTest, WithoutItsIndexAChunkIsReadAsAWhole) {
  RemoteOrigin remote(*fs_);
  const auto packed = dataset(remote, "/photos");
  for (uint32_t chunk = 0; chunk < packed->chunk_count(); ++chunk) {
    remote.damage(packed->chunk_label(chunk), 700, 1 << 20);
  }
  FeedOptions wanted = options();
  wanted.next_epoch = false;
  const auto far = start(packed, wanted);
  const auto near = start(dataset(*fs_, "/photos"), wanted);
  EXPECT_TRUE(rest(*far) == rest(*near));
  EXPECT_GE(far->stats().bytes_read, far->stats().whole_bytes);
}

// A tar header says that an extended header of 8 GB comes first: more than is ever read.
TEST_F(RemoteTest, AnIndexThatClaimsToBeTooBigCountsAsNone) {
  io::MemoryFileSystem copy;
  copy_mixed(copy);
  const auto near = dataset(*fs_);
  for (uint32_t chunk = 0; chunk < near->chunk_count(); ++chunk) {
    ByteVector& content = copy.content(near->chunk_label(chunk));
    std::memcpy(&content[124], "77777777777", 11);
    content[156] = 'L';
    std::memset(&content[148], ' ', 8);
    const auto sum = std::accumulate(content.begin(), content.begin() + store::kTarBlockBytes, 0u);
    std::memcpy(&content[148], fmt::format("{:06o}", sum).c_str(), 7);
  }
  const RemoteOrigin remote(copy);
  const auto far = dataset(remote);
  ASSERT_EQ(far->read_stored_index(0, {}).error().code(), base::Code::kTooBig);
  EXPECT_TRUE(rest(*start(far, options())) == rest(*start(near, options())));
}

TEST_F(RemoteTest, AConnectionThatDropsIsAnErrorAndNoBadSample) {
  const auto near = start(dataset(*fs_), options());
  const std::vector<SeenBatch> expected = rest(*near);
  for (const base::Code code : {base::Code::kTruncated, base::Code::kUnavailable}) {
    for (const size_t at : {0u, 2u, 7u, 12u}) {
      RemoteOrigin remote(*fs_);
      const auto packed = dataset(remote);
      remote.fail(at, code);
      const auto far = start(packed, options());
      std::vector<SeenBatch> batches;
      for (int errors = 0;;) {
        const auto batch = far->next();
        if (batch && *batch == nullptr) break;
        if (batch) {
          batches.push_back(seen(**batch));
        } else {
          EXPECT_EQ(batch.error().code(), code);
          ASSERT_LE(++errors, 1);  // no error if an index was asked for
        }
      }
      EXPECT_TRUE(batches == expected);
      EXPECT_TRUE(far->state().bad.empty());
    }
  }
}

TEST_F(RemoteTest, ATruncatedChunkCostsOnlyTheSamplesThatAreCutOff) {
  io::MemoryFileSystem copy;
  copy_mixed(copy);
  const auto near = dataset(copy);
  ByteVector& content = copy.content(near->chunk_label(1));
  content.resize(content.size() / 2);
  const RemoteOrigin remote(copy);
  const auto expected = start(near, options());
  const auto far = start(dataset(remote), options());
  EXPECT_TRUE(rest(*far) == rest(*expected));
  EXPECT_GE(far->state().bad.size(), 3u);
  EXPECT_EQ(far->state().bad.size(), expected->state().bad.size());
}

TEST_F(RemoteTest, LittleMemoryIsEnough) {
  const RemoteOrigin remote(*fs_);
  const auto packed = dataset(remote);
  FeedOptions wanted = options();
  wanted.memory_bytes_max = least_memory(packed, wanted);
  EXPECT_LT(wanted.memory_bytes_max, 2'500'000u);
  const auto near = start(dataset(*fs_), options());
  const auto far = start(packed, wanted);
  EXPECT_TRUE(rest(*far) == rest(*near));
}

TEST_F(RemoteTest, TheFirstBatchNeedsFewBytes) {
  RemoteOrigin remote(*fs_);
  const auto packed = dataset(remote, "/photos");
  uint64_t all = 0;
  for (uint32_t chunk = 0; chunk < packed->chunk_count(); ++chunk) {
    all += packed->chunk(chunk).bytes;
  }
  FeedOptions wanted = options();
  wanted.prefetch = 1;
  wanted.memory_bytes_max = least_memory(packed, wanted);
  remote.forget();
  const auto feed = start(packed, wanted);
  ASSERT_NE(feed->next().value(), nullptr);
  EXPECT_LT(remote.bytes(), all / 2);
}

// Samples of a chunk that is cut off are read one by one.
TEST_F(RemoteTest, AStopDoesNotWaitForSingleSamples) {
  io::MemoryFileSystem copy;
  copy_mixed(copy);
  const auto near = dataset(copy);
  for (uint32_t chunk = 0; chunk < near->chunk_count(); ++chunk) {
    ByteVector& content = copy.content(near->chunk_label(chunk));
    content.resize(content.size() - 2048);
  }
  for (const size_t requests : {1u, 4u, 9u}) {
    RemoteOrigin remote(copy);
    FeedOptions wanted = options();
    wanted.regions = Regions::kNever;
    const auto packed = dataset(remote);
    remote.forget();
    const auto feed = start(packed, wanted);
    remote.wait_for_requests(requests);
    remote.hold(true);
    EXPECT_TRUE(feed->start({.epoch = 3}).ok());
  }
}

TEST_F(RemoteTest, AStopDoesNotWaitForAnswers) {
  RemoteOrigin remote(*fs_);
  const auto packed = dataset(remote);
  // While indexes are read, and later.
  for (const size_t requests : {1u, 5u, 12u}) {
    remote.forget();
    const auto feed = start(packed, options());
    remote.wait_for_requests(requests);
    remote.hold(true);
    EXPECT_TRUE(feed->start({.epoch = 3}).ok());
    remote.hold(false);
    const auto near = start(dataset(*fs_), options(), {.epoch = 3});
    EXPECT_TRUE(rest(*feed) == rest(*near));
  }
  remote.hold(true);
  const auto feed = start(packed, options());
  EXPECT_FALSE(feed->wait_ms(1));
}

std::shared_ptr<const SampleList> list_of(uint64_t count) {
  SampleList list;
  for (uint64_t i = 0; i < count; ++i) list.samples.push_back(i * 37 % 61);
  return std::make_shared<const SampleList>(std::move(list));
}

// A list needs the locations of its samples before anything can be read.
TEST_F(RemoteTest, AStopEndsAStartThatWaitsForAnswers) {
  RemoteOrigin remote(*fs_);
  const auto far = Feed::open(dataset(remote), options()).value();
  remote.forget();
  remote.hold(true);
  std::stop_source stop;
  base::Crew impatient;
  impatient.start(1, [&](uint32_t) {
    remote.wait_for_requests(1);
    stop.request_stop();
  });
  EXPECT_EQ(far->start({}, list_of(40), stop.get_token()).code(), base::Code::kCancelled);
  impatient.wait();
  remote.hold(false);
  ASSERT_TRUE(far->start({}, list_of(40)).ok());
  const auto near = Feed::open(dataset(*fs_), options()).value();
  ASSERT_TRUE(near->start({}, list_of(40)).ok());
  EXPECT_TRUE(rest(*far) == rest(*near));
}

TEST_F(RemoteTest, WhoeverGivesUpAStartDoesNotWaitForAnswers) {
  RemoteOrigin remote(*fs_);
  SharedFeed far(Feed::open(dataset(remote), options()).value());
  remote.forget();
  remote.hold(true);
  {
    Starting given_up(far, {}, list_of(40));
    remote.wait_for_requests(1);
    EXPECT_FALSE(given_up.wait_ms(1));
  }
  remote.hold(false);
  Starting starting(far, {}, list_of(40));
  auto begun = starting.wait_ms(10'000);
  ASSERT_TRUE(begun && *begun);
  EXPECT_TRUE(far.next(**begun));
}

TEST_F(RemoteTest, TooManySlicesAreNamedWhenMemoryIsTooSmall) {
  const RemoteOrigin remote(*fs_);
  FeedOptions wanted = options();
  wanted.memory_bytes_max = 5'000'000;
  const auto message = [&](uint64_t samples) {
    const auto feed = Feed::open(dataset(remote), wanted).value();
    return std::string(feed->start({}, list_of(samples)).message());
  };
  const std::string many = message(100'000);
  EXPECT_NE(many.find("describe this rank's slices of the epoch"), std::string::npos) << many;
  EXPECT_NE(many.find("use more ranks, or raise it"), std::string::npos) << many;
  wanted.memory_bytes_max = 500'000;
  const std::string few = message(100);
  EXPECT_NE(few.find("raise it, or lower"), std::string::npos) << few;
}

}  // namespace
}  // namespace forebay::feed
