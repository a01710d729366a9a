#include "io/serve/range_client.h"

#include <openssl/ssl.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <list>
#include <map>
#include <system_error>
#include <thread>

#include "base/mutex.h"
#include "io/machine.h"
#include "io/serve/asking_connection.h"
#include "io/serve/job_tls.h"

namespace forebay::io::serve {

namespace asio = boost::asio;
using asio::ip::tcp;
using base::Code;
using base::fail;
using base::MutexLock;
using boost::system::error_code;

namespace {

constexpr std::chrono::milliseconds kLook(50);  // how often deadlines are checked
// OpenSSL reads several records from a connection at once.
constexpr size_t kRecordsBytes = 128u << 10;

}  // namespace

// The client's thread, and everything that only this thread uses.
class RangeClient::Loop {
 public:
  explicit Loop(RangeClientOptions options)
      : options_(std::move(options)), work_(context_.get_executor()), look_(context_) {}
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void start(std::unique_ptr<Flight> flight) EXCLUDES(mutex_);
  void look() {
    asio::post(context_, [this] { give_up(); });
  }

 private:
  struct Server {
    tcp::endpoint place;
    std::deque<std::unique_ptr<Flight>> waiting = {};
    std::list<std::shared_ptr<AskingConnection>> open = {};
  };

  Status begin_thread() EXCLUDES(mutex_);
  Status make_tls();
  void take(std::unique_ptr<Flight> flight);
  void serve(Server& server);
  bool make_place();
  void connect(Server& server, std::unique_ptr<Flight> flight);
  void end(std::unique_ptr<Flight> flight);
  void fail_flight(std::unique_ptr<Flight> flight, Status status);
  std::optional<Status> why_given_up(const Flight& flight, int64_t now_ns) const;
  void give_up();
  void watch();

  const RangeClientOptions options_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer look_;
  std::optional<asio::ssl::context> tls_;
  std::map<tcp::endpoint, Server> servers_;
  size_t flights_ = 0;
  size_t open_ = 0;        // connections
  bool is_short_ = false;  // a request waits because no more connections are allowed
  bool is_making_place_ = false;
  bool watches_ = false;
  bool is_ending_ = false;
  base::Mutex mutex_;
  bool ended_ GUARDED_BY(mutex_) = false;
  std::thread thread_ GUARDED_BY(mutex_);  // begins with the first request
};

RangeClient::Loop::~Loop() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    ended_ = true;
    thread.swap(thread_);
  }
  if (!thread.joinable()) return;
  asio::post(context_, [this] {
    is_ending_ = true;
    give_up();
    for (auto& [place, server] : servers_) {
      // The list is copied, because closed connections leave it.
      for (const auto& connection : std::list(server.open)) connection->fail({});
    }
    look_.cancel();
    work_.reset();
  });
  thread.join();
}

void RangeClient::Loop::start(std::unique_ptr<Flight> flight) {
  Status begun = begin_thread();
  if (!begun.ok()) {
    flight->outcome.status = std::move(begun);
    return flight->done(std::move(flight->outcome));
  }
  // A std::function must be copyable.
  auto shared = std::make_shared<std::unique_ptr<Flight>>(std::move(flight));
  asio::post(context_, [this, shared] { take(std::move(*shared)); });
}

// When the client ends, a `done` may start another request, which fails at once.
Status RangeClient::Loop::begin_thread() try {
  MutexLock lock(mutex_);
  if (ended_) return {Code::kCancelled, "reading was stopped"};
  if (thread_.joinable()) return {};
  RETURN_IF_ERROR(make_tls());
  thread_ = std::thread([this] {
    work_in_background();
    block_signal_of_closed_pipe();
    context_.run();
  });
  return {};
} catch (const std::system_error& error) {
  return fail(Code::kNoMemory,
              "cannot start a thread for requests ({}); allow more processes (ulimit -u)",
              error.what());
}

Status RangeClient::Loop::make_tls() {
  if (options_.job == nullptr || tls_) return {};
  asio::ssl::context tls(asio::ssl::context::tls_client);
  RETURN_IF_ERROR(use_job_certificate(tls, *options_.job));
  SSL_CTX_set_read_ahead(tls.native_handle(), 1);
  SSL_CTX_set_default_read_buffer_len(tls.native_handle(), kRecordsBytes);
  tls_ = std::move(tls);
  return {};
}

void RangeClient::Loop::take(std::unique_ptr<Flight> flight) {
  ++flights_;
  flight->stopped.emplace(flight->request.options.stop, [this] { look(); });
  error_code error;
  const auto address = asio::ip::make_address(flight->request.host, error);
  if (error) {
    Status why = fail(Code::kInvalid, "{} is not an IP address", flight->request.host);
    return fail_flight(std::move(flight), std::move(why));
  }
  if (auto why = why_given_up(*flight, monotonic_ns())) {
    return fail_flight(std::move(flight), std::move(*why));
  }
  const tcp::endpoint place(address, flight->request.port);
  Server& server = servers_.try_emplace(place, Server{.place = place}).first->second;
  server.waiting.push_back(std::move(flight));
  serve(server);
  watch();
}

// Gives waiting requests to idle or new connections.
void RangeClient::Loop::serve(Server& server) {
  while (!server.waiting.empty()) {
    const auto idle =
        std::ranges::find_if(server.open, [](const auto& one) { return one->is_idle(); });
    const bool is_full = server.open.size() >= options_.connections_to_one_max;
    if (idle == server.open.end() && (is_full || !make_place())) return;
    auto flight = std::move(server.waiting.front());
    server.waiting.pop_front();
    flight->outcome.sent_ns = monotonic_ns();
    if (idle == server.open.end()) {
      connect(server, std::move(flight));
    } else {
      std::shared_ptr<AskingConnection>(*idle)->ask(std::move(flight));
    }
  }
}

// Whether one more connection may be opened. At the limit, an idle one is closed for it.
bool RangeClient::Loop::make_place() {
  if (open_ < options_.connections_max) return true;
  for (auto& [place, server] : servers_) {
    const auto idle =
        std::ranges::find_if(server.open, [](const auto& one) { return one->is_idle(); });
    if (idle == server.open.end()) continue;
    is_making_place_ = true;
    std::shared_ptr<AskingConnection>(*idle)->fail({});
    is_making_place_ = false;
    return true;
  }
  is_short_ = true;
  return false;
}

void RangeClient::Loop::connect(Server& server, std::unique_ptr<Flight> flight) {
  const auto at = server.open.emplace(server.open.begin());
  ++open_;
  const auto remove_closed = [this, &server, at] {
    if (!(*at)->is_open()) {
      server.open.erase(at);
      --open_;
    }
    if (is_ending_ || is_making_place_) return;
    serve(server);
    // Requests to other servers may have waited for a connection.
    if (!std::exchange(is_short_, false)) return;
    for (auto& [place, other] : servers_) serve(other);
  };
  AskingConnection::Events events{
      .done =
          [this, remove_closed](std::unique_ptr<Flight> done) {
            end(std::move(done));
            remove_closed();
          },
      .stale =
          [this, &server, at](std::unique_ptr<Flight> again) {
            server.open.erase(at);
            --open_;
            again->was_sent_before = true;
            connect(server, std::move(again));
          },
      .closed = remove_closed,
  };
  *at = std::make_shared<AskingConnection>(context_, tls_ ? tls_->native_handle() : nullptr,
                                           std::move(events));
  std::shared_ptr<AskingConnection>(*at)->connect(
      server.place, monotonic_ns() + options_.connect_ns, std::move(flight));
}

void RangeClient::Loop::end(std::unique_ptr<Flight> flight) {
  --flights_;
  flight->stopped.reset();
  flight->done(std::move(flight->outcome));
}

void RangeClient::Loop::fail_flight(std::unique_ptr<Flight> flight, Status status) {
  flight->outcome.status = std::move(status);
  end(std::move(flight));
}

std::optional<Status> RangeClient::Loop::why_given_up(const Flight& flight, int64_t now_ns) const {
  const ReadOptions& options = flight.request.options;
  if (is_ending_ || options.stop.stop_requested()) {
    return Status(Code::kCancelled, "reading was stopped");
  }
  if (options.deadline_ns && now_ns >= *options.deadline_ns) {
    return Status(Code::kTimedOut, "the whole answer did not come before the deadline");
  }
  const int64_t sent_ns = flight.outcome.sent_ns;
  if (sent_ns != 0 && now_ns - sent_ns >= flight.request.answer_ns) {
    return Status(Code::kTimedOut, "the whole answer did not come in time");
  }
  const bool is_wanted = flight.request.wanted() && (sent_ns != 0 || flight.request.may_send());
  if (!is_wanted) return Status(Code::kCancelled, "the answer is no longer needed");
  return std::nullopt;
}

// Ends the requests that are no longer needed, or all when the client ends.
void RangeClient::Loop::give_up() {
  const int64_t now_ns = monotonic_ns();
  for (auto& [place, server] : servers_) {
    std::deque<std::unique_ptr<Flight>> waiting;
    waiting.swap(server.waiting);
    for (auto& flight : waiting) {
      if (auto why = why_given_up(*flight, now_ns)) {
        fail_flight(std::move(flight), std::move(*why));
      } else {
        server.waiting.push_back(std::move(flight));
      }
    }
    for (const auto& connection : std::list(server.open)) {
      std::optional<Status> why;
      if (connection->flight() != nullptr) why = why_given_up(*connection->flight(), now_ns);
      if (!why && connection->is_late(now_ns)) {
        why = Status(Code::kTimedOut, "the connection was not established in time");
      }
      if (why) connection->fail(std::move(*why));
    }
  }
  std::erase_if(servers_, [](const auto& one) {
    return one.second.waiting.empty() && one.second.open.empty();
  });
}

void RangeClient::Loop::watch() {
  if (watches_ || is_ending_ || flights_ == 0) return;
  watches_ = true;
  look_.expires_after(kLook);
  look_.async_wait([this](error_code) {
    watches_ = false;
    give_up();
    watch();
  });
}

RangeClient::RangeClient(RangeClientOptions options)
    : loop_(std::make_unique<Loop>(std::move(options))) {}
RangeClient::~RangeClient() = default;

void RangeClient::start(RangeRequest request, http::Sink& sink, Done done) {
  loop_->start(std::make_unique<Flight>(std::move(request), sink, std::move(done)));
}

void RangeClient::drop_unwanted() { loop_->look(); }

}  // namespace forebay::io::serve
