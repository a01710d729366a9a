// Asynchronous reads. A few threads open files and start the reads. Files with blocking reads are
// read by these threads; a remote file keeps many reads in flight by itself (ReadableFile::start).
#pragma once

#include <functional>
#include <vector>

#include "base/crew.h"
#include "base/mutex.h"
#include "base/queue.h"
#include "io/origin.h"

namespace forebay::io {

struct ReadRequest {
  // Opens the file, which stays open as long as somebody holds the pointer. A reading thread calls
  // this, because opening may block too; its error becomes the outcome of the read.
  std::function<Result<std::shared_ptr<const ReadableFile>>()> open;
  std::vector<Range> ranges = {};  // as in ReadableFile::start(); the memory stays until it is done
  ReadOptions options = {};
  uint64_t tag = 0;  // chosen by the owner, returned with the outcome
};

// A read that is done.
struct DoneRead {
  uint64_t tag = 0;
  Status status = {};    // ok: the ranges are filled; else the error of open() or start()
  uint64_t bytes = 0;    // read; 0 if it failed
  uint32_t thread = 0;   // the reading thread that began it
  int64_t begin_ns = 0;  // it was in flight from here to end_ns, on the clock of monotonic_ns()
  int64_t end_ns = 0;
  // CPU time of the thread that finished this read, since it finished the read before: that read's
  // on_done, and this read.
  int64_t cpu_ns = 0;
};

struct ReadQueueOptions {
  // Two suit a local disk: one waits for the disk while the other copies.
  uint32_t threads = 2;
};

// One owner calls everything, except cancel(), which any thread may call. The threads that finish
// reads call on_done, several at the same time; it may start more reads. on_done is called exactly
// once for each read that was started before the destructor, at the latest before the destructor
// returns. Reads that on_done starts while the destructor runs may be dropped.
class ReadQueue {
 public:
  // The crew's threads read for the queue until it ends.
  ReadQueue(base::Crew& crew, const ReadQueueOptions& options,
            std::function<void(DoneRead)> on_done);
  // Cancels, and waits until every read is done.
  ~ReadQueue();
  ReadQueue(const ReadQueue&) = delete;
  ReadQueue& operator=(const ReadQueue&) = delete;

  // Returns at once. Reads begin in the order in which they were started. The owner limits how many
  // wait, by the memory that it has for them.
  void start(ReadRequest request);
  // Ends all reads, also those that are started later, soon and with kCancelled, unless they are
  // done before. A blocking read ends after its current piece. Returns at once.
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
