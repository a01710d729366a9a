// What the feed asks a cache to prefetch.
#include "feed/read/cache_prefetch.h"

#include <unistd.h>

#include <atomic>
#include <deque>
#include <map>

#include "feed/testing/remote_fixture.h"
#include "io/machine.h"

namespace forebay::feed {
namespace {

using io::PrefetchOutcome;

using Asked = RemoteOrigin::Asked;

// Bytes of files.
class ByteSet {
 public:
  explicit ByteSet(const std::vector<Asked>& asked) { add(asked); }
  void add(const std::vector<Asked>& asked) {
    for (const Asked& one : asked) {
      std::vector<bool>& bytes = files_[one.path];
      for (const auto& [offset, length] : one.ranges) {
        if (bytes.size() < offset + length) bytes.resize(offset + length);
        for (uint64_t at = offset; at < offset + length; ++at) bytes[at] = true;
      }
    }
  }
  uint64_t size() const {
    uint64_t size = 0;
    for (const auto& [path, bytes] : files_) {
      size += static_cast<uint64_t>(std::ranges::count(bytes, true));
    }
    return size;
  }
  // The number of bytes that are in both sets.
  uint64_t common_with(const ByteSet& other) const {
    uint64_t common = 0;
    for (const auto& [path, bytes] : files_) {
      const auto found = other.files_.find(path);
      if (found == other.files_.end()) continue;
      for (size_t at = 0; at < std::min(bytes.size(), found->second.size()); ++at) {
        if (bytes[at] && found->second[at]) ++common;
      }
    }
    return common;
  }

 private:
  std::map<std::string, std::vector<bool>> files_;
};

// Stands before an origin as if a cache kept copies of its bytes. Its answers are those that the
// test sets, and then kComing.
class Front final : public io::Origin {
 public:
  explicit Front(const RemoteOrigin& below) : below_(below) {}

  Result<std::unique_ptr<io::ReadableFile>> open(const std::string& path,
                                                 const io::OpenOptions& options) const override {
    ASSIGN_OR_RETURN(auto file, below_.open(path, options));
    return std::make_unique<File>(*this, std::move(file));
  }
  bool is_remote(const std::string&) const override { return true; }
  bool keeps_copies(const std::string&) const override { return true; }
  size_t ranges_max(const std::string& path) const override { return below_.ranges_max(path); }
  Result<std::vector<io::DirEntry>> list(const std::string& path) const override {
    return below_.list(path);
  }
  Result<io::FileInfo> stat(const std::string& path) const override { return below_.stat(path); }
  std::string canonical(const std::string& path) const override { return path; }

  void answer(std::deque<PrefetchOutcome> answers) {
    base::MutexLock lock(mutex_);
    answers_ = std::move(answers);
  }
  void answer_always(PrefetchOutcome answer) {
    base::MutexLock lock(mutex_);
    last_ = answer;
  }
  std::vector<Asked> asked() const {
    base::MutexLock lock(mutex_);
    return asked_;
  }
  // The most reads that had no answer yet when a prefetch was asked for.
  int waiting_most() const { return waiting_most_; }

 private:
  class File final : public io::ReadableFile, public io::Prefetchable {
   public:
    File(const Front& front, std::unique_ptr<io::ReadableFile> below)
        : front_(front), below_(std::move(below)) {}
    const std::string& path() const override { return below_->path(); }
    const io::Identity& identity() const override { return below_->identity(); }
    Status read(uint64_t offset, io::MutableBytes out,
                const io::ReadOptions& options) const override {
      return below_->read(offset, out, options);
    }
    void start(std::vector<io::Range> ranges, const io::ReadOptions& options,
               std::function<void(Status)> done) const override {
      ++front_.waiting_;
      below_->start(std::move(ranges), options,
                    [&front = front_, done = std::move(done)](Status status) {
                      --front.waiting_;
                      done(std::move(status));
                    });
    }
    void prefetch(const std::vector<io::serve::WantedRange>& ranges, const io::ReadOptions&,
                  std::function<void(PrefetchOutcome)> done) const override {
      done(front_.note(path(), ranges));
    }

   private:
    const Front& front_;
    const std::unique_ptr<io::ReadableFile> below_;
  };

  PrefetchOutcome note(const std::string& path,
                       const std::vector<io::serve::WantedRange>& ranges) const {
    waiting_most_ = std::max(waiting_most_.load(), waiting_.load());
    base::MutexLock lock(mutex_);
    Asked& asked = asked_.emplace_back(Asked{.path = path, .ranges = {}});
    for (const auto& range : ranges) asked.ranges.emplace_back(range.offset, range.length);
    if (answers_.empty()) return last_;
    const PrefetchOutcome answer = answers_.front();
    answers_.pop_front();
    return answer;
  }

  const RemoteOrigin& below_;
  mutable std::atomic<int> waiting_ = 0;
  mutable std::atomic<int> waiting_most_ = 0;
  mutable base::Mutex mutex_;
  mutable std::deque<PrefetchOutcome> answers_ GUARDED_BY(mutex_);
  PrefetchOutcome last_ GUARDED_BY(mutex_) = PrefetchOutcome::kComing;
  mutable std::vector<Asked> asked_ GUARDED_BY(mutex_);
};

class CachePrefetchTest : public RemoteTest {
 protected:
  CachePrefetchTest() {
    static const bool is_packed = [] {
      pack_remote_images(*fs_, "/several", 160, false, 1'000'000);
      return true;
    }();
    EXPECT_TRUE(is_packed);
  }
  // Options with which the feed itself reads little ahead.
  static FeedOptions little() {
    const RemoteOrigin remote(*fs_);
    FeedOptions out = options();
    out.regions = Regions::kNever;
    out.next_epoch = false;
    out.memory_bytes_max = least_memory(dataset(remote, "/several"), out);
    return out;
  }
  // The number of chunks that were asked for, counting consecutive requests for one chunk once.
  static size_t chunks_in_a_row(const std::vector<Asked>& asked) {
    size_t chunks = 0;
    for (size_t i = 0; i < asked.size(); ++i) {
      if (i == 0 || asked[i].path != asked[i - 1].path) ++chunks;
    }
    return chunks;
  }
  static bool comes_true(const std::function<bool()>& condition) {
    const int64_t deadline_ns = io::monotonic_ns() + 20'000'000'000;
    while (!condition() && io::monotonic_ns() < deadline_ns) ::usleep(2000);
    return condition();
  }
};

TEST_F(CachePrefetchTest, WhatTheEpochNeedsLaterIsAskedForOnceWhileNobodyReads) {
  RemoteOrigin plain(*fs_);
  const auto plain_set = dataset(plain, "/several");
  const FeedOptions options = little();
  plain.forget();
  rest(*start(plain_set, options));
  const ByteSet needed(plain.asked());
  RemoteOrigin remote(*fs_);
  const Front front(remote);
  const auto set = dataset(front, "/several");
  remote.forget();
  const auto feed = start(set, options);
  // The consumer is slow: it has not even taken the first batch.
  EXPECT_TRUE(comes_true([&] {
    ByteSet both(remote.asked());
    both.add(front.asked());
    return needed.common_with(both) == needed.size();
  }));
  EXPECT_EQ(front.waiting_most(), 0);
  const std::vector<Asked> asked = front.asked();
  const ByteSet ahead(asked);
  EXPECT_GT(ahead.size(), needed.size() / 2);
  uint64_t asked_bytes = 0;
  for (const Asked& one : asked) {
    for (const auto& range : one.ranges) asked_bytes += range.second;
  }
  EXPECT_EQ(asked_bytes, ahead.size());  // each byte once
  // The requests come about in the order in which the feed reads: several reads are in flight.
  rest(*feed);
  const std::vector<Asked> read = remote.asked();
  constexpr ptrdiff_t kInFlight = 32;
  ptrdiff_t last = 0;
  for (const Asked& one : asked) {
    const auto found = std::ranges::find_if(read, [&](const Asked& other) {
      return other.path == one.path && other.ranges == one.ranges;
    });
    ASSERT_NE(found, read.end());
    EXPECT_GE(found - read.begin(), last - kInFlight);
    last = std::max(last, found - read.begin());
  }
}

TEST_F(CachePrefetchTest, WhatSomebodyWasTooBusyForIsAskedForAgain) {
  constexpr size_t kBusy = 6;
  RemoteOrigin remote(*fs_);
  Front front(remote);
  front.answer(std::deque<PrefetchOutcome>(kBusy, PrefetchOutcome::kBusy));
  const auto set = dataset(front, "/several");
  const auto feed = start(set, little());
  ASSERT_TRUE(comes_true([&] {
    const std::vector<Asked> asked = front.asked();
    if (asked.size() <= kBusy) return false;
    const ByteSet refused({asked.begin(), asked.begin() + kBusy});
    ByteSet later({asked.begin() + kBusy, asked.end()});
    later.add(remote.asked());  // or the feed has read these bytes itself meanwhile
    return refused.common_with(later) == refused.size();
  }));
  rest(*feed);
}

TEST_F(CachePrefetchTest, WhereThereIsNoRoomNothingMoreIsAskedForInTheEpoch) {
  RemoteOrigin remote(*fs_);
  Front front(remote);
  front.answer_always(PrefetchOutcome::kFull);
  const auto set = dataset(front, "/several");
  const auto feed = start(set, little());
  ASSERT_TRUE(comes_true([&] { return chunks_in_a_row(front.asked()) >= 16; }));
  rest(*feed);
  EXPECT_EQ(chunks_in_a_row(front.asked()), 16u);
  // With room, more is asked for.
  RemoteOrigin other(*fs_);
  const Front free(other);
  const auto free_set = dataset(free, "/several");
  const auto free_feed = start(free_set, little());
  EXPECT_TRUE(comes_true([&] { return chunks_in_a_row(free.asked()) > 16; }));
}

TEST_F(CachePrefetchTest, WhereAllIsKeptOnlyALoadNowAndThenIsAskedFor) {
  RemoteOrigin remote(*fs_);
  Front few(remote);
  few.answer_always(PrefetchOutcome::kKept);
  const auto set = dataset(few, "/several");
  const auto feed = start(set, little());
  ASSERT_TRUE(comes_true([&] { return few.asked().size() > 16; }));
  const auto batches = rest(*feed);
  RemoteOrigin plain(*fs_);
  const auto plain_set = dataset(plain, "/several");
  EXPECT_TRUE(batches == rest(*start(plain_set, little())));
  EXPECT_LT(few.asked().size(), 24u);
}

TEST_F(CachePrefetchTest, TheEndWaitsForNothing) {
  RemoteOrigin remote(*fs_);
  Front front(remote);
  front.answer_always(PrefetchOutcome::kBusy);
  const auto set = dataset(front, "/several");
  auto feed = start(set, little());
  ASSERT_TRUE(comes_true([&] { return !front.asked().empty(); }));
  feed.reset();
}

}  // namespace
}  // namespace forebay::feed
