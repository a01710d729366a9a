// How a feed copes with origins that are slow or fail, like a network.
#include "feed/read/reading.h"

#include <gmock/gmock.h>

#include "feed/testing/feed_fixture.h"
#include "io/testing/faulty.h"

namespace forebay::feed {
namespace {

using base::Code;
using base::MutexLock;

// Files whose reads never finish: they end only when they are given up.
class StuckOrigin final : public io::Origin {
 public:
  explicit StuckOrigin(const io::Origin& below) : below_(below) {}
  Result<std::unique_ptr<io::ReadableFile>> open(const std::string& path,
                                                 const io::OpenOptions& options) const override {
    ASSIGN_OR_RETURN(auto file, below_.open(path, options));
    return std::make_unique<File>(*this, std::move(file));
  }
  Result<std::vector<io::DirEntry>> list(const std::string& path) const override {
    return below_.list(path);
  }
  Result<io::FileInfo> stat(const std::string& path) const override { return below_.stat(path); }
  std::string canonical(const std::string& path) const override { return below_.canonical(path); }

  void wait_for_read() const {
    MutexLock lock(mutex_);
    while (reads_ == 0) changed_.wait(mutex_);
  }

 private:
  class File final : public io::ReadableFile {
   public:
    File(const StuckOrigin& origin, std::unique_ptr<io::ReadableFile> below)
        : origin_(origin), below_(std::move(below)) {}
    const std::string& path() const override { return below_->path(); }
    const io::Identity& identity() const override { return below_->identity(); }
    Status read(uint64_t, io::MutableBytes, const io::ReadOptions& options) const override {
      const std::stop_callback wake(options.stop, [this] {
        MutexLock lock(origin_.mutex_);
        origin_.changed_.notify_all();
      });
      MutexLock lock(origin_.mutex_);
      ++origin_.reads_;
      origin_.changed_.notify_all();
      while (!options.stop.stop_requested()) origin_.changed_.wait(origin_.mutex_);
      return base::fail(Code::kCancelled, "given up");
    }

   private:
    const StuckOrigin& origin_;
    const std::unique_ptr<io::ReadableFile> below_;
  };

  const io::Origin& below_;
  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  mutable int reads_ GUARDED_BY(mutex_) = 0;
};

TEST_F(FeedTest, AStopDoesNotWaitForALongRead) {
  const StuckOrigin stuck(fs_);
  const auto feed = Feed::open(dataset_->through(stuck), options()).value();
  ASSERT_TRUE(feed->start({}).ok());
  stuck.wait_for_read();
  EXPECT_FALSE(feed->wait_ms(1));
  ASSERT_TRUE(
      feed->start({.epoch = 3}).ok());  // ends the reads of epoch 0; the destructor the rest
  EXPECT_FALSE(feed->wait_ms(1));
}

// A clock that does not wait: each wait jumps to its deadline at once.
class JumpingClock final : public io::Clock {
 public:
  int64_t now_ns() const override { return now_ns_; }
  bool wait_until([[maybe_unused]] base::Mutex& mutex, base::CondVar&,
                  int64_t deadline_ns) const override REQUIRES(mutex) {
    now_ns_ = deadline_ns;
    return false;
  }

 private:
  mutable std::atomic<int64_t> now_ns_ = 0;
};

TEST_F(FeedTest, AWaitGoesByTheClockThatWasHandedIn) {
  const StuckOrigin stuck(fs_);
  const JumpingClock clock;
  const auto feed = Feed::open(dataset_->through(stuck), options(), clock).value();
  ASSERT_TRUE(feed->start({}).ok());
  EXPECT_FALSE(feed->wait_ms(3'600'000));
  EXPECT_EQ(clock.now_ns(), int64_t{3'600'000} * 1'000'000);
}

TEST_F(FeedTest, AConnectionThatDropsIsAnErrorAndNoBadSample) {
  for (const Code code : {Code::kTruncated, Code::kUnavailable, Code::kTimedOut}) {
    for (const int64_t at : {0, 1, 9, 20}) {
      io::FaultyFileSystem faulty(fs_, {.on = io::FaultyFileSystem::Fault::On::kRead,
                                        .at = at,
                                        .for_ever = false,
                                        .code = code});
      const auto feed = Feed::open(dataset_->through(faulty), options()).value();
      ASSERT_TRUE(feed->start({}).ok());
      Result<std::shared_ptr<const Batch>> batch = feed->next();
      while (batch && *batch != nullptr) batch = feed->next();
      ASSERT_FALSE(batch) << at;
      EXPECT_EQ(batch.error().code(), code);
      EXPECT_TRUE(feed->state().bad.empty());
      // The connection is back: the epoch goes on where it stopped.
      const uint64_t position = feed->state().position;
      Epoch rest;
      for (batch = feed->next(); batch && *batch != nullptr; batch = feed->next()) {
        copy(**batch, 0, 1, &rest);
      }
      ASSERT_TRUE(batch) << batch.error().message();
      const Epoch expected = run(options(), 1, {.position = position});
      EXPECT_EQ(rest, expected);
      EXPECT_TRUE(feed->state().bad.empty());
    }
  }
}

}  // namespace
}  // namespace forebay::feed
