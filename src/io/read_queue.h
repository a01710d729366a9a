// Reads that are in flight while their owner goes on. A few threads open files and begin the reads.
// Files that can only make a thread wait are read by these threads; a file that is far away keeps
// many reads in flight by itself (ReadableFile::start).
#pragma once

#include <functional>
#include <vector>

#include "base/crew.h"
#include "base/mutex.h"
#include "base/queue.h"
#include "io/origin.h"

namespace forebay::io {

struct ReadRequest {
  // Gives the file, which stays open as long as somebody holds it. A reading thread calls this,
  // because opening may wait too; what it refuses is the outcome of the read.
  std::function<Result<std::shared_ptr<const ReadableFile>>()> open;
  std::vector<Range> ranges = {};  // like ReadableFile::start(); their memory stays until then
  ReadOptions options = {};
  uint64_t tag = 0;  // the owner's, given back with the outcome
};

// A read that is done.
struct DoneRead {
  uint64_t tag = 0;
  Status status = {};    // the ranges are filled where it is ok; else what open() or start() gave
  uint64_t bytes = 0;    // read; 0 where it failed
  uint32_t thread = 0;   // the reading thread that began it
  int64_t begin_ns = 0;  // it was in flight from here to end_ns, as monotonic_ns() counts
  int64_t end_ns = 0;
  // CPU time since its last read of the thread that finished this one: of this read, and of on_done
  // before it.
  int64_t cpu_ns = 0;
};

struct ReadQueueOptions {
  // Two suit a local disk: one waits for the disk while the other copies.
  uint32_t threads = 2;
};

// One owner calls everything, except cancel(), which any thread may call; on_done is called by the
// threads that finish reads, several at once, and may start more reads. Each read that was started
// before the destructor is done exactly once, at the latest when the destructor returns; what
// on_done starts while the destructor runs may be dropped.
class ReadQueue {
 public:
  // The crew's threads read for the queue until it ends.
  ReadQueue(base::Crew& crew, const ReadQueueOptions& options,
            std::function<void(DoneRead)> on_done);
  // Cancels, and waits until every read is done.
  ~ReadQueue();
  ReadQueue(const ReadQueue&) = delete;
  ReadQueue& operator=(const ReadQueue&) = delete;

  // Returns at once. Reads begin in the order in which they were started; the owner limits how many
  // wait, by the memory that it gives them.
  void start(ReadRequest request);
  // All reads that were or will be started end soon with kCancelled, unless they are done before.
  // A long one ends after its current piece. Returns at once.
  void cancel();

 private:
  class Flight;  // a read that has begun

  void run(uint32_t thread) EXCLUDES(mutex_);
  void begin(ReadRequest request, uint32_t thread) EXCLUDES(mutex_);
  void finish(DoneRead done) EXCLUDES(mutex_);

  const std::function<void(DoneRead)> on_done_;
  std::stop_source cancelled_;
  base::Queue<ReadRequest> waiting_;
  base::Mutex mutex_;
  base::CondVar landed_;
  uint64_t in_flight_ GUARDED_BY(mutex_) = 0;
  base::Crew& crew_;
};

}  // namespace forebay::io
