#include "io/read_queue.h"

#include <limits>
#include <new>

#include "io/machine.h"

namespace forebay::io {

using base::Code;
using base::fail;

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
}

void ReadQueue::start(ReadRequest request) { waiting_.push(std::move(request)); }

void ReadQueue::cancel() { cancelled_.request_stop(); }

void ReadQueue::run(uint32_t thread) {
  work_in_background();
  int64_t cpu_ns = thread_cpu_ns();
  while (std::optional<ReadRequest> request = waiting_.pop()) {
    DoneRead done{.tag = request->tag, .thread = thread, .begin_ns = monotonic_ns()};
    done.status = read(*request);
    if (done.status.ok()) done.bytes = request->out.size();
    const int64_t cpu_before = std::exchange(cpu_ns, thread_cpu_ns());
    done.cpu_ns = cpu_ns - cpu_before;
    done.end_ns = monotonic_ns();
    request.reset();  // the file may close before the owner hears of it
    on_done_(std::move(done));
  }
}

Status ReadQueue::read(const ReadRequest& request) {
  const std::stop_token cancelled = cancelled_.get_token();
  if (cancelled.stop_requested()) return fail(Code::kCancelled, "reading was stopped");
  if (!request.options.stop.stop_possible()) return read_until(request, cancelled);
  std::stop_source stop;  // for this read: the queue's owner or the request's
  const auto end = [&] { stop.request_stop(); };
  const std::stop_callback by_queue(cancelled, end);
  const std::stop_callback by_request(request.options.stop, end);
  return read_until(request, stop.get_token());
}

Status ReadQueue::read_until(const ReadRequest& request, const std::stop_token& stop) {
  try {
    ASSIGN_OR_RETURN(const auto file, request.open());
    return file->read(request.offset, request.out,
                      {.deadline_ns = request.options.deadline_ns, .stop = stop});
  } catch (const std::bad_alloc&) {
    return fail(Code::kNoMemory, "no memory to read {}", base::human_bytes(request.out.size()));
  }
}

}  // namespace forebay::io
