#include "io/read_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "base/random.h"
#include "io/blocking_file.h"
#include "io/machine.h"
#include "io/testing/memory.h"

namespace forebay::io {
namespace {

using base::Code;
using base::MutexLock;

// Collects outcomes, and waits for them.
class Outcomes {
 public:
  auto collector() {
    return [this](DoneRead done) {
      MutexLock lock(mutex_);
      done_.push_back(std::move(done));
      changed_.notify_all();
    };
  }
  std::map<uint64_t, DoneRead> wait(size_t count) {
    MutexLock lock(mutex_);
    while (done_.size() < count) changed_.wait(mutex_);
    std::map<uint64_t, DoneRead> by_tag;
    for (const DoneRead& done : done_) EXPECT_TRUE(by_tag.emplace(done.tag, done).second);
    return by_tag;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<DoneRead> done_ GUARDED_BY(mutex_);
};

// A file without an end, whose pieces wait at a gate.
class GatedFile final : public BlockingFile {
 public:
  GatedFile() : BlockingFile("gated", {.size = UINT64_MAX}) {}
  void open_gate() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_for_reader() const {
    MutexLock lock(mutex_);
    while (pieces_ == 0) changed_.wait(mutex_);
  }
  int pieces() const {
    MutexLock lock(mutex_);
    return pieces_;
  }

 private:
  Result<size_t> read_some(uint64_t, MutableBytes out) const override {
    MutexLock lock(mutex_);
    ++pieces_;
    changed_.notify_all();
    while (!open_) changed_.wait(mutex_);
    return out.size();
  }

  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  bool open_ GUARDED_BY(mutex_) = false;
  mutable int pieces_ GUARDED_BY(mutex_) = 0;
};

ReadRequest request_for(std::shared_ptr<const ReadableFile> file, MutableBytes out, uint64_t tag) {
  return {.open = [file]() -> Result<std::shared_ptr<const ReadableFile>> { return file; },
          .ranges = {{.offset = 0, .out = out}},
          .tag = tag};
}

TEST(ReadQueue, ReadsManyRangesAndSaysWhatCameOfEach) {
  MemoryFileSystem fs;
  ASSERT_TRUE(fs.make_dirs("/d").ok());
  base::ByteVector content(1000);
  std::iota(content.begin(), content.end(), uint8_t{0});
  ASSERT_TRUE(fs.put("/d/a", content).ok());
  for (const uint32_t threads : {1u, 2u, 5u}) {
    Outcomes outcomes;
    std::vector<base::ByteVector> out(100, base::ByteVector(10));
    base::Crew crew;
    ReadQueue queue(crew, {.threads = threads}, outcomes.collector());
    for (uint64_t i = 0; i < 100; ++i) {
      queue.start(
          {.open = [&]() -> Result<std::shared_ptr<const ReadableFile>> { return fs.open("/d/a"); },
           .ranges = {{.offset = 10 * i, .out = out[i]}},
           .tag = i});
    }
    base::ByteVector past(2);
    queue.start(
        {.open = [&]() -> Result<std::shared_ptr<const ReadableFile>> { return fs.open("/d/a"); },
         .ranges = {{.offset = 999, .out = past}},
         .tag = 100});
    queue.start({.open = [&]() -> Result<std::shared_ptr<const ReadableFile>> {
                   return fs.open("/d/none");
                 },
                 .tag = 101});
    const auto done = outcomes.wait(102);
    for (uint64_t i = 0; i < 100; ++i) {
      const DoneRead& read = done.at(i);
      ASSERT_TRUE(read.status.ok()) << read.status.message();
      EXPECT_EQ(read.bytes, 10u);
      EXPECT_LT(read.thread, threads);
      EXPECT_LE(read.begin_ns, read.end_ns);
      EXPECT_TRUE(std::equal(out[i].begin(), out[i].end(), content.data() + 10 * i));
    }
    EXPECT_EQ(done.at(100).status.code(), Code::kTruncated);
    EXPECT_EQ(done.at(101).status.code(), Code::kNotFound);
  }
}

TEST(ReadQueue, CancellingEndsALongReadAfterItsPieceAndAllThatWait) {
  const auto file = std::make_shared<GatedFile>();
  Outcomes outcomes;
  base::ByteVector out(100u << 20);
  {
    base::Crew crew;
    ReadQueue queue(crew, {.threads = 1}, outcomes.collector());
    for (uint64_t tag = 0; tag < 3; ++tag) queue.start(request_for(file, out, tag));
    file->wait_for_reader();
    queue.cancel();
    file->open_gate();
  }
  const auto done = outcomes.wait(3);
  for (const auto& [tag, read] : done) EXPECT_EQ(read.status.code(), Code::kCancelled) << tag;
  EXPECT_EQ(file->pieces(), 1);
}

TEST(ReadQueue, ARequestCanBeStoppedOrLateByItself) {
  const auto file = std::make_shared<GatedFile>();
  Outcomes outcomes;
  base::ByteVector out(20u << 20);
  std::stop_source stop;
  base::Crew crew;
  ReadQueue queue(crew, {.threads = 2}, outcomes.collector());
  ReadRequest stopped = request_for(file, out, 0);
  stopped.options.stop = stop.get_token();
  ReadRequest late = request_for(file, base::MutableBytes(out).first(1), 1);
  late.options.deadline_ns = monotonic_ns();
  queue.start(std::move(stopped));
  file->wait_for_reader();
  queue.start(std::move(late));
  stop.request_stop();
  file->open_gate();
  const auto done = outcomes.wait(2);
  EXPECT_EQ(done.at(0).status.code(), Code::kCancelled);
  EXPECT_EQ(done.at(1).status.code(), Code::kTimedOut);
}

TEST(ReadQueue, AnOutcomeMayStartTheNextRead) {
  const auto file = std::make_shared<GatedFile>();
  file->open_gate();
  base::ByteVector out(1);
  base::Mutex mutex;
  base::CondVar changed;
  uint64_t last = 0;
  ReadQueue* started = nullptr;
  base::Crew crew;
  ReadQueue queue(crew, {}, [&](const DoneRead& done) {
    if (done.tag < 10) return started->start(request_for(file, out, done.tag + 1));
    MutexLock lock(mutex);
    last = done.tag;
    changed.notify_all();
  });
  started = &queue;
  queue.start(request_for(file, out, 1));
  MutexLock lock(mutex);
  while (last != 10) changed.wait(mutex);
}

TEST(ReadQueue, NoMemoryIsAnOutcome) {
  Outcomes outcomes;
  base::Crew crew;
  ReadQueue queue(crew, {}, outcomes.collector());
  queue.start(
      {.open = []() -> Result<std::shared_ptr<const ReadableFile>> { throw std::bad_alloc(); }});
  EXPECT_EQ(outcomes.wait(1).at(0).status.code(), Code::kNoMemory);
}

}  // namespace
}  // namespace forebay::io
