#include "io/http/client.h"

#include <algorithm>
#include <deque>
#include <list>
#include <new>
#include <thread>

#include "base/mutex.h"
#include "io/http/transfer.h"
#include "io/machine.h"

namespace forebay::io::http {

using base::Code;
using base::MutexLock;

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kIdleNs = 1000 * kMs;  // libcurl closes what is dead at least this often

}  // namespace

// The thread, and all that only it touches.
class Client::Driver {
 public:
  explicit Driver(const ClientOptions& options) : options_(options), multi_(curl_multi_init()) {
    if (multi_ == nullptr) throw std::bad_alloc();
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(options.requests_max));
    thread_ = std::thread([this] { run(); });
  }
  ~Driver() {
    {
      MutexLock lock(mutex_);
      ended_ = true;
    }
    curl_multi_wakeup(multi_);
    thread_.join();
    curl_multi_cleanup(multi_);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  void start(std::unique_ptr<Transfer> transfer) EXCLUDES(mutex_);

 private:
  using Transfers = std::list<std::unique_ptr<Transfer>>;

  void run() EXCLUDES(mutex_);
  bool take_new() EXCLUDES(mutex_);
  void begin_waiting(int64_t now_ns);
  void begin(std::unique_ptr<Transfer> transfer);
  void give_up(int64_t now_ns);
  void give_up_in(Transfers& transfers, int64_t now_ns, bool ended);
  void finish_done();
  int64_t next_event_ns(int64_t now_ns) const;

  const ClientOptions options_;
  CURLM* const multi_;
  Transfers waiting_;  // for their time, or for a place among running_
  Transfers running_;
  std::atomic<bool> somebody_stopped_ = false;
  base::Mutex mutex_;
  std::deque<std::unique_ptr<Transfer>> new_ GUARDED_BY(mutex_);
  bool ended_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

void Client::Driver::start(std::unique_ptr<Transfer> transfer) {
  transfer->watch([this] {
    somebody_stopped_ = true;
    curl_multi_wakeup(multi_);
  });
  {
    MutexLock lock(mutex_);
    new_.push_back(std::move(transfer));
  }
  curl_multi_wakeup(multi_);
}

void Client::Driver::run() {
  work_in_background();
  // A connection that the other side closed must be an error and not the end of the process.
  block_signal_of_closed_pipe();
  while (!take_new()) {
    const int64_t now_ns = monotonic_ns();
    give_up(now_ns);
    begin_waiting(now_ns);
    int running = 0;
    curl_multi_perform(multi_, &running);
    finish_done();
    const int64_t wait_ns = next_event_ns(monotonic_ns());
    if (wait_ns > 0) {
      curl_multi_poll(multi_, nullptr, 0, static_cast<int>((wait_ns + kMs - 1) / kMs), nullptr);
    }
  }
  // What is done may start more, which ends in the same way.
  do {
    give_up_in(waiting_, 0, true);
    give_up_in(running_, 0, true);
    take_new();
  } while (!waiting_.empty());
}

// Whether the client ends.
bool Client::Driver::take_new() {
  MutexLock lock(mutex_);
  for (auto& transfer : new_) waiting_.push_back(std::move(transfer));
  new_.clear();
  return ended_;
}

void Client::Driver::begin_waiting(int64_t now_ns) {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (running_.size() == options_.requests_max) return;
    const Request& request = (*at)->request();
    if (request.begin_ns > now_ns) {
      ++at;
      continue;
    }
    std::unique_ptr<Transfer> transfer = std::move(*at);
    at = waiting_.erase(at);
    if (request.wanted && !request.wanted()) {
      transfer->fail({Code::kCancelled, "it is not wanted any more"});
    } else {
      begin(std::move(transfer));
    }
  }
}

void Client::Driver::begin(std::unique_ptr<Transfer> transfer) {
  // A new one for each: a used handle may keep buffers that cannot be set up again.
  CURL* const handle = curl_easy_init();
  try {
    if (handle == nullptr) throw std::bad_alloc();
    transfer->prepare(handle, options_);
    if (curl_multi_add_handle(multi_, handle) != CURLM_OK) throw std::bad_alloc();
    running_.push_back(std::move(transfer));
  } catch (const std::bad_alloc&) {
    if (handle != nullptr) curl_easy_cleanup(handle);
    transfer->fail({Code::kNoMemory, "no memory for a request"});
  }
}

void Client::Driver::give_up(int64_t now_ns) {
  somebody_stopped_ = false;
  give_up_in(waiting_, now_ns, false);
  give_up_in(running_, now_ns, false);
}

void Client::Driver::give_up_in(Transfers& transfers, int64_t now_ns, bool ended) {
  for (auto at = transfers.begin(); at != transfers.end();) {
    std::optional<Status> why = (*at)->given_up(now_ns);
    if (!why && ended) why = Status(Code::kCancelled, "reading was stopped");
    if (!why) {
      ++at;
      continue;
    }
    const std::unique_ptr<Transfer> transfer = std::move(*at);
    at = transfers.erase(at);
    if (CURL* const handle = transfer->handle()) {
      curl_multi_remove_handle(multi_, handle);
      curl_easy_cleanup(handle);
    }
    transfer->fail(std::move(*why));
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
    transfer->finish(code);
    curl_easy_cleanup(handle);
  }
}

// How long the thread may wait for the network; 0: not at all.
int64_t Client::Driver::next_event_ns(int64_t now_ns) const {
  if (somebody_stopped_) return 0;
  int64_t next = now_ns + kIdleNs;
  const bool has_place = running_.size() < options_.requests_max;
  for (const auto& transfer : waiting_) {
    if (has_place) next = std::min(next, transfer->request().begin_ns);
  }
  for (const Transfers* transfers : {&waiting_, &running_}) {
    for (const auto& transfer : *transfers) {
      next = std::min(next, transfer->request().options.deadline_ns.value_or(next));
    }
  }
  return std::max<int64_t>(0, next - now_ns);
}

Client::Client(const ClientOptions& options) : driver_(std::make_unique<Driver>(options)) {}
Client::~Client() = default;

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
