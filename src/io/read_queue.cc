#include "io/read_queue.h"

#include <new>

#include "io/machine.h"

namespace forebay::io {

using base::Code;
using base::fail;
using base::MutexLock;

ReadQueue::ReadQueue(base::Crew& crew, const ReadQueueOptions& options,
                     std::function<void(DoneRead)> on_done)
    : on_done_(std::move(on_done)), crew_(crew) {
  FOREBAY_CHECK(options.threads > 0);
  crew_.start(options.threads, [this](uint32_t thread) { run(thread); });
}

ReadQueue::~ReadQueue() {
  cancel();
  {
    MutexLock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  crew_.wait();
}

void ReadQueue::start(ReadRequest request) {
  MutexLock lock(mutex_);
  waiting_.push_back(std::move(request));
  changed_.notify_one();
}

void ReadQueue::cancel() { cancelled_.request_stop(); }

void ReadQueue::run(uint32_t thread) {
  work_in_background();
  while (std::optional<ReadRequest> request = take()) {
    DoneRead done{.tag = request->tag, .thread = thread, .begin_ns = monotonic_ns()};
    const int64_t cpu_begin = thread_cpu_ns();
    done.status = read(*request);
    if (done.status.ok()) done.bytes = request->out.size();
    done.cpu_ns = thread_cpu_ns() - cpu_begin;
    done.end_ns = monotonic_ns();
    request.reset();  // the file may close before the owner hears of it
    on_done_(std::move(done));
  }
}

// After the queue's end what still waits is taken too, as every read must be done.
std::optional<ReadRequest> ReadQueue::take() {
  MutexLock lock(mutex_);
  while (!ended_ && waiting_.empty()) changed_.wait(mutex_);
  if (waiting_.empty()) return std::nullopt;
  ReadRequest request = std::move(waiting_.front());
  waiting_.pop_front();
  return request;
}

Status ReadQueue::read(const ReadRequest& request) {
  if (cancelled_.stop_requested()) return fail(Code::kCancelled, "reading was stopped");
  std::stop_source stop;  // for this read: the queue's owner or the request's
  const auto end = [&] { stop.request_stop(); };
  const std::stop_callback by_queue(cancelled_.get_token(), end);
  const std::stop_callback by_request(request.options.stop, end);
  try {
    ASSIGN_OR_RETURN(const auto file, request.open());
    return file->read(request.offset, request.out,
                      {.deadline_ns = request.options.deadline_ns, .stop = stop.get_token()});
  } catch (const std::bad_alloc&) {
    return fail(Code::kNoMemory, "no memory to read {}", base::human_bytes(request.out.size()));
  }
}

}  // namespace forebay::io
