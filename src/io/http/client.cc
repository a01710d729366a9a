#include "io/http/client.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <limits>
#include <list>
#include <new>
#include <system_error>
#include <thread>

#include "base/mutex.h"
#include "io/http/budget.h"
#include "io/http/transfer.h"
#include "io/http/turns.h"
#include "io/machine.h"

namespace forebay::io::http {

using base::Code;
using base::MutexLock;

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kIdleNs = 1000 * kMs;  // libcurl closes dead connections at least this often
// With this many requests in flight, small packets come all the time. Waiting a millisecond between
// two rounds halves the CPU time; the sockets' buffers hold what comes meanwhile.
constexpr size_t kManyRunning = 8;
constexpr std::chrono::milliseconds kTogether(1);
constexpr long kTooManyRequests = 429;
constexpr long kUnavailable = 503;  // S3 calls it "Slow Down"

}  // namespace

// The client's thread, and everything that only this thread uses.
class Client::Driver {
 public:
  explicit Driver(const ClientOptions& options)
      : options_(options), multi_(curl_multi_init()), request_limit_(options.requests_max) {
    if (multi_ == nullptr) throw std::bad_alloc();
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(options.requests_max));
  }
  ~Driver() {
    std::thread thread;
    {
      MutexLock lock(mutex_);
      ended_ = true;
      thread.swap(thread_);
    }
    curl_multi_wakeup(multi_);
    if (thread.joinable()) thread.join();
    curl_multi_cleanup(multi_);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  void start(std::unique_ptr<Transfer> transfer) EXCLUDES(mutex_);
  void drop_unwanted();
  const Link& link() const { return link_; }

 private:
  using Transfers = std::list<std::unique_ptr<Transfer>>;

  Status begin_thread() EXCLUDES(mutex_);
  void run() EXCLUDES(mutex_);
  bool take_new() EXCLUDES(mutex_);
  void begin_waiting(int64_t now_ns);
  void begin(std::unique_ptr<Transfer> transfer);
  void give_up(int64_t now_ns, bool ended);
  void look_for_slow(int64_t now_ns);
  void finish_done();
  void note_answer(CURL* handle, const Transfer& transfer);
  bool may_send() const { return running_.size() < request_limit_.limit(); }
  int64_t next_event_ns(int64_t now_ns) const;

  const ClientOptions options_;
  CURLM* const multi_;
  Link link_;
  RequestLimit request_limit_;
  Turns waiting_;
  Transfers running_;
  int64_t next_deadline_ns_ = 0;  // no request has an earlier one
  bool speaks_http2_ = false;     // an answer has come by HTTP/2
  std::atomic<bool> look_again_ = false;
  base::Mutex mutex_;
  std::deque<std::unique_ptr<Transfer>> new_ GUARDED_BY(mutex_);
  bool ended_ GUARDED_BY(mutex_) = false;
  std::thread thread_ GUARDED_BY(mutex_);  // begins with the first request
};

void Client::Driver::start(std::unique_ptr<Transfer> transfer) {
  transfer->watch([this] { drop_unwanted(); });
  Status begun = begin_thread();
  if (!begun.ok()) return transfer->fail(std::move(begun));
  {
    MutexLock lock(mutex_);
    new_.push_back(std::move(transfer));
  }
  curl_multi_wakeup(multi_);
}

// When the client ends, a `done` may start another request. The ending thread takes it, so no new
// thread is started.
Status Client::Driver::begin_thread() try {
  MutexLock lock(mutex_);
  if (!ended_ && !thread_.joinable()) thread_ = std::thread([this] { run(); });
  return {};
} catch (const std::system_error& error) {
  return base::fail(Code::kNoMemory,
                    "cannot start a thread for requests ({}); allow more processes (ulimit -u)",
                    error.what());
}

void Client::Driver::drop_unwanted() {
  look_again_ = true;
  curl_multi_wakeup(multi_);
}

void Client::Driver::run() {
  work_in_background();
  // A connection that the other side closed must be an error and not the end of the process.
  block_signal_of_closed_pipe();
  while (!take_new()) {
    const int64_t now_ns = monotonic_ns();
    if (look_again_.exchange(false) || now_ns >= next_deadline_ns_) give_up(now_ns, false);
    look_for_slow(now_ns);
    begin_waiting(now_ns);
    int running = 0;
    curl_multi_perform(multi_, &running);
    finish_done();
    if (running_.size() >= kManyRunning) std::this_thread::sleep_for(kTogether);
    const int64_t wait_ns = next_event_ns(monotonic_ns());
    if (wait_ns > 0) {
      curl_multi_poll(multi_, nullptr, 0, static_cast<int>((wait_ns + kMs - 1) / kMs), nullptr);
    }
  }
  // A `done` may start another request, which is cancelled too.
  do {
    give_up(0, true);
    take_new();
  } while (!waiting_.empty());
}

// Takes over new requests. Returns whether the client ends.
bool Client::Driver::take_new() {
  MutexLock lock(mutex_);
  for (auto& transfer : new_) {
    const auto& deadline_ns = transfer->request().options.deadline_ns;
    next_deadline_ns_ = std::min(next_deadline_ns_, deadline_ns.value_or(next_deadline_ns_));
    waiting_.push(std::move(transfer));
  }
  new_.clear();
  return ended_;
}

void Client::Driver::begin_waiting(int64_t now_ns) {
  while (std::unique_ptr<Transfer> transfer = waiting_.pop(now_ns, may_send())) {
    if (std::optional<Status> why = transfer->given_up(now_ns)) {
      transfer->fail(std::move(*why));
    } else {
      begin(std::move(transfer));
    }
  }
}

void Client::Driver::begin(std::unique_ptr<Transfer> transfer) {
  // Each request has a new handle, because a used one may keep buffers that cannot be set up again.
  CURL* const handle = curl_easy_init();
  try {
    if (handle == nullptr) throw std::bad_alloc();
    // With HTTP/2, a hedge would share the connection of the slow request.
    const Request& request = transfer->request();
    const bool fresh = request.new_connection || (request.is_hedge && speaks_http2_);
    transfer->prepare(handle, options_, link_, fresh);
    if (curl_multi_add_handle(multi_, handle) != CURLM_OK) throw std::bad_alloc();
    running_.push_back(std::move(transfer));
  } catch (const std::bad_alloc&) {
    transfer->fail({Code::kNoMemory, "no memory for a request"});
    if (handle != nullptr) curl_easy_cleanup(handle);
  }
}

// Ends the requests that are no longer needed, or all when the client ends.
void Client::Driver::give_up(int64_t now_ns, bool ended) {
  next_deadline_ns_ = std::numeric_limits<int64_t>::max();
  const auto why = [&](const Transfer& transfer) {
    std::optional<Status> status = transfer.given_up(now_ns);
    if (!status && ended) status = Status(Code::kCancelled, "reading was stopped");
    if (!status) {
      const auto& deadline_ns = transfer.request().options.deadline_ns;
      next_deadline_ns_ = std::min(next_deadline_ns_, deadline_ns.value_or(next_deadline_ns_));
    }
    return status;
  };
  for (auto& transfer : waiting_.take_if([&](const Transfer& t) { return why(t).has_value(); })) {
    transfer->fail(why(*transfer).value());
  }
  for (auto at = running_.begin(); at != running_.end();) {
    std::optional<Status> status = why(**at);
    if (!status) {
      ++at;
      continue;
    }
    const std::unique_ptr<Transfer> transfer = std::move(*at);
    at = running_.erase(at);
    curl_multi_remove_handle(multi_, transfer->handle());
    transfer->fail(std::move(*status));
    curl_easy_cleanup(transfer->handle());
  }
}

void Client::Driver::look_for_slow(int64_t now_ns) {
  for (const auto& transfer : running_) {
    if (transfer->is_slow(now_ns) && !request_limit_.is_reduced()) transfer->request().on_slow();
  }
}

void Client::Driver::finish_done() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    CURL* const handle = message->easy_handle;
    const auto at = std::ranges::find(running_, handle, [](const auto& t) { return t->handle(); });
    FOREBAY_CHECK(at != running_.end());
    const std::unique_ptr<Transfer> transfer = std::move(*at);
    running_.erase(at);
    curl_multi_remove_handle(multi_, handle);
    note_answer(handle, *transfer);
    transfer->finish(code);
    curl_easy_cleanup(handle);
  }
}

// Learns from an answer how many requests the server can take at once.
void Client::Driver::note_answer(CURL* handle, const Transfer& transfer) {
  long code = 0;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &code);
  if (code == kTooManyRequests || code == kUnavailable) {
    request_limit_.refused(transfer.sent_ns(), monotonic_ns());
  } else if (code >= 200 && code < 300) {
    request_limit_.answered();
  }
  long version = 0;
  curl_easy_getinfo(handle, CURLINFO_HTTP_VERSION, &version);
  speaks_http2_ |= version == CURL_HTTP_VERSION_2_0;
}

// How long the thread may wait for the network; 0: not at all.
int64_t Client::Driver::next_event_ns(int64_t now_ns) const {
  if (look_again_) return 0;
  int64_t next = std::min({now_ns + kIdleNs, next_deadline_ns_, waiting_.next_ns(may_send())});
  for (const auto& transfer : running_) next = std::min(next, transfer->next_look_ns());
  return std::max<int64_t>(0, next - now_ns);
}

Client::Client(const ClientOptions& options) : driver_(std::make_unique<Driver>(options)) {}
Client::~Client() = default;

void Client::drop_unwanted() { driver_->drop_unwanted(); }
const Link& Client::link() const { return driver_->link(); }

void Client::start(Request request, Sink& sink, Done done) {
  driver_->start(std::make_unique<Transfer>(std::move(request), sink, std::move(done)));
}

Outcome Client::perform(Request request, Sink& sink) {
  base::Mutex mutex;
  base::CondVar changed;
  std::optional<Outcome> outcome;
  start(std::move(request), sink, [&](Outcome done) {
    MutexLock lock(mutex);
    outcome = std::move(done);
    changed.notify_all();
  });
  MutexLock lock(mutex);
  while (!outcome) changed.wait(mutex);
  return std::move(*outcome);
}

}  // namespace forebay::io::http
