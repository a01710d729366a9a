#include "io/read_queue.h"

#include <limits>
#include <new>

#include "io/machine.h"

namespace forebay::io {

using base::Code;
using base::fail;
using base::MutexLock;

namespace {

// CPU time of the calling thread since its last call.
int64_t take_cpu_ns() {
  thread_local int64_t before = 0;
  const int64_t now = thread_cpu_ns();
  return now - std::exchange(before, now);
}

}  // namespace

class ReadQueue::Flight {
 public:
  Flight(ReadQueue& queue, ReadRequest request, uint32_t thread)
      : request_(std::move(request)),
        done_{.tag = request_.tag, .thread = thread, .begin_ns = monotonic_ns()},
        stop_(queue.cancelled_.get_token()) {
    for (const Range& range : request_.ranges) bytes_ += range.out.size();
    if (!request_.options.stop.stop_possible()) return;
    // Both the queue and the request can stop the read.
    own_.emplace();
    const auto end = [this] { own_->request_stop(); };
    by_queue_.emplace(stop_, end);
    by_request_.emplace(request_.options.stop, end);
    stop_ = own_->get_token();
  }

  Status open() {
    if (stop_.stop_requested()) return fail(Code::kCancelled, "reading was stopped");
    try {
      ASSIGN_OR_RETURN(file_, request_.open());
    } catch (const std::bad_alloc&) {
      return fail(Code::kNoMemory, "no memory to read {}", base::human_bytes(bytes_));
    }
    return {};
  }
  void start(std::function<void(Status)> done) {
    file_->start(std::move(request_.ranges),
                 {.deadline_ns = request_.options.deadline_ns, .stop = stop_}, std::move(done));
  }
  DoneRead finish(Status status) {
    if (status.ok()) done_.bytes = bytes_;
    done_.status = std::move(status);
    done_.cpu_ns = take_cpu_ns();
    done_.end_ns = monotonic_ns();
    by_queue_.reset();
    by_request_.reset();
    request_.open = nullptr;
    file_.reset();  // the file may close before on_done is called
    return std::move(done_);
  }

 private:
  using StopCallback = std::stop_callback<std::function<void()>>;

  ReadRequest request_;
  DoneRead done_;
  uint64_t bytes_ = 0;
  std::shared_ptr<const ReadableFile> file_;
  std::stop_token stop_;
  std::optional<std::stop_source> own_;
  std::optional<StopCallback> by_queue_;
  std::optional<StopCallback> by_request_;
};

ReadQueue::ReadQueue(base::Crew& crew, const ReadQueueOptions& options,
                     std::function<void(DoneRead)> on_done)
    : on_done_(std::move(on_done)),
      waiting_(std::numeric_limits<size_t>::max()),  // the owner limits how many wait
      crew_(crew) {
  FOREBAY_CHECK(options.threads > 0);
  crew_.start(options.threads, [this](uint32_t thread) { run(thread); });
}

ReadQueue::~ReadQueue() {
  cancel();
  waiting_.close();
  crew_.wait();
  MutexLock lock(mutex_);
  while (in_flight_ > 0) landed_.wait(mutex_);
}

void ReadQueue::start(ReadRequest request) { waiting_.push(std::move(request)); }

void ReadQueue::cancel() { cancelled_.request_stop(); }

void ReadQueue::run(uint32_t thread) {
  work_in_background();
  take_cpu_ns();
  while (std::optional<ReadRequest> request = waiting_.pop()) {
    begin(std::move(*request), thread);
  }
}

void ReadQueue::begin(ReadRequest request, uint32_t thread) {
  {
    MutexLock lock(mutex_);
    ++in_flight_;
  }
  const uint64_t tag = request.tag;
  std::shared_ptr<Flight> flight;
  try {
    flight = std::make_shared<Flight>(*this, std::move(request), thread);
  } catch (const std::bad_alloc&) {
    return finish({.tag = tag, .status = {Code::kNoMemory, "no memory to begin a read"}});
  }
  Status opened = flight->open();
  if (!opened.ok()) return finish(flight->finish(std::move(opened)));
  flight->start([this, flight](Status status) { finish(flight->finish(std::move(status))); });
}

void ReadQueue::finish(DoneRead done) {
  on_done_(std::move(done));
  MutexLock lock(mutex_);
  if (--in_flight_ == 0) landed_.notify_all();
}

}  // namespace forebay::io
