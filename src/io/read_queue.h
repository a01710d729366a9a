// Reads that are in flight while their owner goes on. Files that can only make a thread wait are
// read by a few threads; a file that keeps many ranges in flight by itself needs none of them.
#pragma once

#include <functional>
#include <vector>

#include "base/crew.h"
#include "base/queue.h"
#include "io/origin.h"

namespace forebay::io {

struct ReadRequest {
  // Gives the file, which stays open as long as somebody holds it. A reading thread calls this,
  // because opening may wait too; what it refuses is the outcome of the read.
  std::function<Result<std::shared_ptr<const ReadableFile>>()> open;
  uint64_t offset = 0;
  MutableBytes out = {};  // its memory stays until the read is done
  ReadOptions options = {};
  uint64_t tag = 0;  // the owner's, given back with the outcome
};

// A read that is done.
struct DoneRead {
  uint64_t tag = 0;
  Status status = {};  // `out` is filled where it is ok; else what open() or read() gave
  uint64_t bytes = 0;  // read; 0 where it failed
  uint32_t thread = 0;
  int64_t begin_ns = 0;  // from here to end_ns the thread worked on it, as monotonic_ns() counts
  int64_t end_ns = 0;
  // CPU time of the thread since its last read: of this read, and of on_done before it.
  int64_t cpu_ns = 0;
};

struct ReadQueueOptions {
  // Two suit a local disk: one waits for the disk while the other copies.
  uint32_t threads = 2;
};

// One owner calls everything; on_done is called by the reading threads, several at once, and may
// start more reads. Each read that was started before the destructor is done exactly once, at the
// latest when the destructor returns; what on_done starts while the destructor runs may be dropped.
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
  void run(uint32_t thread);
  Status read(const ReadRequest& request);
  static Status read_until(const ReadRequest& request, const std::stop_token& stop);

  const std::function<void(DoneRead)> on_done_;
  std::stop_source cancelled_;
  base::Queue<ReadRequest> waiting_;
  base::Crew& crew_;
};

}  // namespace forebay::io
