// Threads and processes that load the samples' columns at the same time, and wait for each other.
#include "store/sample_columns.h"

#include <sys/wait.h>

#include <thread>

#include "io/blocking_file.h"
#include "io/machine.h"
#include "store/testing/pack_samples.h"
#include "store/testing/remote_dataset.h"

namespace forebay::store {
namespace {

using base::Code;

class SampleColumnsTest : public RemoteDatasetTest {};

// Files in memory without a mutex, so that a forked process can read them at any time.
class FrozenOrigin final : public io::Origin {
 public:
  explicit FrozenOrigin(std::map<std::string, ByteVector> files) : files_(std::move(files)) {}
  Result<std::unique_ptr<io::ReadableFile>> open(const std::string& path,
                                                 const io::OpenOptions&) const override {
    return std::make_unique<io::LoadedFile>(path, files_.at(path));
  }
  Result<std::vector<io::DirEntry>> list(const std::string& path) const override {
    return base::fail(Code::kUnsupported, "{}: nothing is listed", path);
  }
  Result<io::FileInfo> stat(const std::string& path) const override {
    return io::FileInfo{.type = io::FileType::kFile, .size = files_.at(path).size()};
  }
  std::string canonical(const std::string& path) const override { return path; }

 private:
  const std::map<std::string, ByteVector> files_;
};

TEST_F(SampleColumnsTest, ThreadsMayAskForAnything) {
  const CountingOrigin origin(*fs_);
  for (uint32_t round = 0; round < 4; ++round) {
    const auto far = open(origin);
    std::vector<std::jthread> threads;
    for (uint32_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        base::Random random(round, base::Purpose::kTest, thread);
        for (int i = 0; i < 6; ++i) {
          const auto chunk = static_cast<uint32_t>(random.below(far->chunk_count()));
          if (random.below(2) == 0) {
            EXPECT_TRUE(load(*far, chunk).ok());
          } else {
            EXPECT_TRUE(far->read_chunk_index(chunk));
          }
          const uint64_t sample = far->chunk(chunk).first_sample + random.below(10);
          EXPECT_TRUE(same(far->location(sample), near_->location(sample)));
        }
      });
    }
  }
}

// A bug once: a thread that waited for another thread's read ignored its own stop and deadline.
TEST_F(SampleColumnsTest, WaitingForARowEndsByTheOptionsOfWhoeverWaits) {
  CountingOrigin origin(*fs_);
  const auto far = open(origin);
  origin.hold();
  std::jthread reader([&] { EXPECT_TRUE(load(*far, 0).ok()); });
  origin.wait_for_reader();
  EXPECT_EQ(load(*far, 0, {.deadline_ns = io::monotonic_ns() + 10'000'000}).code(),
            Code::kTimedOut);
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_EQ(load(*far, 0, {.stop = stop.get_token()}).code(), Code::kCancelled);
  origin.release();
  reader.join();
  expect_same(*far, 0);
}

// If a thread gives up a read, the next thread that waits for it reads instead.
TEST_F(SampleColumnsTest, AReaderThatGivesUpCostsOthersNothing) {
  CountingOrigin origin(*fs_);
  for (const bool by_deadline : {false, true}) {
    const auto far = open(origin);
    origin.hold();
    std::stop_source stop;
    io::ReadOptions options{.stop = stop.get_token()};
    if (by_deadline) options.deadline_ns = io::monotonic_ns() + 20'000'000;
    std::jthread reader([&] {
      EXPECT_EQ(load(*far, 0, options).code(), by_deadline ? Code::kTimedOut : Code::kCancelled);
    });
    origin.wait_for_reader();
    std::jthread other([&] { EXPECT_TRUE(load(*far, 0).ok()); });
    if (by_deadline) {
      while (io::monotonic_ns() < *options.deadline_ns) std::this_thread::yield();
    } else {
      stop.request_stop();
    }
    origin.release();
    other.join();
    expect_same(*far, 0);
  }
}

// A bug once: a forked process could inherit a mutex that was locked and stayed locked.
TEST_F(SampleColumnsTest, AProcessThatForksWhileRowsAreReadHangsNobody) {
  const FrozenOrigin files(contents(*fs_, kFar));
  const CountingOrigin origin(files);
  for (int round = 0; round < 30; ++round) {
    const auto far = open(origin);
    std::vector<std::jthread> threads;
    for (uint32_t thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&, thread] {
        for (uint32_t i = 0; i < far->chunk_count(); ++i) {
          EXPECT_TRUE(load(*far, (i + thread) % far->chunk_count()).ok());
        }
      });
    }
    while (!far->knows_locations(round % 2 == 0 ? 0 : 2)) std::this_thread::yield();
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      bool is_right = true;
      for (uint32_t chunk = 0; chunk < far->chunk_count(); ++chunk) {
        is_right = is_right && load(*far, chunk).ok();
      }
      for (uint64_t i = 0; is_right && i < far->sample_count(); i += 97) {
        is_right = same(far->location(i), near_->location(i));
      }
      ::_exit(is_right ? 0 : 1);
    }
    int status = 1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << round;
  }
}

}  // namespace
}  // namespace forebay::store
