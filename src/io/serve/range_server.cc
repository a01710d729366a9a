#include <algorithm>
#include <boost/asio/post.hpp>
#include <system_error>
#include <utility>

#include "io/children.h"
#include "io/machine.h"
#include "io/serve/connection_sending.h"
#include "io/serve/job_tls.h"
#include "io/serve/server_loop.h"

namespace forebay::io::serve {

namespace asio = boost::asio;
using asio::ip::tcp;
using base::Code;
using base::fail;
using boost::system::error_code;

namespace {

constexpr std::chrono::seconds kSweep(1);
constexpr std::chrono::milliseconds kPause(100);
constexpr int64_t kYoungNs = 60'000'000'000;
constexpr size_t kUnknownMost = 1000;

// The folder of a path, whose slashes may be encoded.
std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  const size_t encoded = path.rfind("%2F");
  const size_t end = encoded == std::string::npos ? slash : std::max(slash, encoded);
  return path.substr(0, end);
}

}  // namespace

RangeServer::Loop::Loop(const ServedFiles& files)
    : files_(files),
      work_(context_.get_executor()),
      acceptor_(context_),
      pause_(context_),
      sweeper_(context_),
      connections_max_(std::min<size_t>(base::kServedConnectionsMax, open_files_max() / 4)),
      begin_ns_(monotonic_ns()) {}

int64_t RangeServer::Loop::wait_until_ns(const std::string& path) const {
  const int64_t now_ns = monotonic_ns();
  const bool is_young = now_ns - begin_ns_ < kYoungNs;
  return is_young && !unknown_.contains(folder_of(path)) ? now_ns + wait_ns_ : now_ns;
}

void RangeServer::Loop::note_unknown(const std::string& path) {
  if (unknown_.size() < kUnknownMost) unknown_.emplace(folder_of(path));
}

Status RangeServer::Loop::open(const RangeServerOptions& options) try {
  wait_ns_ = options.wait_ns;
  proofs_ = proofs_from(options.local_secret);
  if (options.job != nullptr) {
    RETURN_IF_ERROR(
        use_job_certificate(tls_.emplace(asio::ssl::context::tls_server), *options.job));
  } else if (!asio::ip::make_address(options.address).is_loopback()) {
    return fail(
        Code::kInvalid,
        "{} is not a loopback address: without a secret, only loopback addresses are served",
        options.address);
  }
  const tcp::endpoint place(asio::ip::make_address(options.address), options.port);
  acceptor_.open(place.protocol());
  acceptor_.set_option(tcp::acceptor::reuse_address(true));
  acceptor_.bind(place);
  acceptor_.listen();
  close_in_children(acceptor_.native_handle());
  port_ = acceptor_.local_endpoint().port();
  accept();
  sweep();
  thread_ = std::thread([this] {
    work_in_background();
    block_signal_of_closed_pipe();
    context_.run();
  });
  return {};
} catch (const boost::system::system_error& error) {
  return fail(Code::kUnavailable, "cannot listen on {} port {}: {}", options.address, options.port,
              error.code().message());
} catch (const std::system_error& error) {
  return fail(Code::kNoMemory, "cannot start a thread for a server ({})", error.what());
}

RangeServer::Loop::~Loop() {
  if (!thread_.joinable()) return;
  asio::post(context_, [this] {
    ended_ = true;
    error_code ignored;
    keep_in_children(acceptor_.native_handle());
    acceptor_.close(ignored);
    sweeper_.cancel();
    for (MemoryBudget& room : budgets_) room.waiting.clear();
    pause_.cancel();
    for (const auto& weak : connections_) {
      if (const auto connection = weak.lock()) connection->close();
    }
    end_if_idle();
  });
  thread_.join();
  base::MutexLock lock(mutex_);
}

void RangeServer::Loop::accept() {
  acceptor_.async_accept([this](error_code error, tcp::socket socket) {
    if (ended_) return;
    if (error) {  // no descriptors are left; some may be closed meanwhile
      pause_.expires_after(kPause);
      return pause_.async_wait([this](error_code) {
        if (!ended_) accept();
      });
    }
    if (make_place()) {
      error_code ignored;
      socket.set_option(tcp::no_delay(true), ignored);
      fail_when_gone(socket.native_handle());
      begin(std::move(socket));
    } else {
      ++refused_;
    }
    accept();
  });
}

// Whether one more connection may begin. At the limit, the connection that has waited longest for
// its client is closed, so that idle clients do not keep others away.
bool RangeServer::Loop::make_place() {
  if (connections_.size() < connections_max_) return true;
  auto longest = connections_.end();
  int64_t earliest_ns = INT64_MAX;
  for (auto at = connections_.begin(); at != connections_.end(); ++at) {
    const auto connection = at->lock();
    const int64_t deadline_ns = connection == nullptr ? 0 : connection->client_deadline_ns();
    if (deadline_ns >= earliest_ns) continue;
    earliest_ns = deadline_ns;
    longest = at;
  }
  if (longest == connections_.end()) return false;
  if (const auto connection = longest->lock()) connection->close();
  connections_.erase(longest);
  return true;
}

void RangeServer::Loop::begin(tcp::socket socket) {
  const auto add = [this](const auto& connection) {
    connections_.push_back(connection);
    connection->begin();
  };
  if (tls_) {
    using Tls = asio::ssl::stream<tcp::socket>;
    add(std::make_shared<Connection<Tls>>(*this, Tls(std::move(socket), *tls_)));
  } else {
    add(std::make_shared<Connection<tcp::socket>>(*this, std::move(socket)));
  }
}

void RangeServer::Loop::sweep() {
  const int64_t now_ns = monotonic_ns();
  connections_.remove_if([&](const std::weak_ptr<OpenConnection>& weak) {
    const auto connection = weak.lock();
    if (connection != nullptr && connection->is_late(now_ns)) connection->close();
    return connection == nullptr;
  });
  sweeper_.expires_after(kSweep);
  sweeper_.async_wait([this](error_code) {
    if (!ended_) sweep();
  });
}

void RangeServer::Loop::take_room(For whom, uint64_t bytes, std::function<void()> then) {
  if (take_room_now(whom, bytes)) return then();
  room(whom).waiting.emplace_back(bytes, std::move(then));
}

void RangeServer::Loop::give_room(For whom, uint64_t bytes) {
  MemoryBudget& to = room(whom);
  to.bytes += bytes;
  while (!to.waiting.empty() && to.waiting.front().first <= to.bytes) {
    to.bytes -= to.waiting.front().first;
    const auto then = std::move(to.waiting.front().second);
    to.waiting.pop_front();
    asio::post(context_, then);
  }
}

bool RangeServer::Loop::ask(const Question& question,
                            std::function<void(Result<MadeAnswer>)> then) {
  if (ended_) return false;
  ++reads_;
  // `then` owns a connection, which must not outlive the loop. So it is dropped when it has run,
  // even if the callee keeps its function.
  const auto owner = std::make_shared<decltype(then)>(std::move(then));
  const bool is_asked = files_.answer(question, [this, owner](Result<MadeAnswer> made) {
    auto shared = std::make_shared<Result<MadeAnswer>>(std::move(made));
    base::MutexLock lock(mutex_);
    asio::post(context_, [this, then = std::exchange(*owner, nullptr), shared] {
      --reads_;
      end_if_idle();
      then(std::move(*shared));
    });
  });
  if (!is_asked) --reads_;
  return is_asked;
}

void RangeServer::Loop::read(For whom, const std::string& path, std::vector<Range> ranges,
                             std::function<void(Status)> then) {
  // A request that waited for memory may go on after the server began to end, but then no new read
  // may begin.
  if (ended_) return then({Code::kCancelled, "the server ends"});
  ++reads_;
  const auto owner = std::make_shared<decltype(then)>(std::move(then));  // as in ask()
  auto done = [this, owner](Status status) {
    // The destructor takes this mutex, so that the loop is not destroyed while this posts to it.
    base::MutexLock lock(mutex_);
    asio::post(context_, [this, then = std::exchange(*owner, nullptr), status = std::move(status)] {
      --reads_;
      end_if_idle();
      then(status);
    });
  };
  if (whom == For::kAnyone) return files_.read(path, std::move(ranges), std::move(done));
  files_.hold(path, std::move(ranges), std::move(done));
}

RangeServer::RangeServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
RangeServer::~RangeServer() = default;

Result<std::unique_ptr<RangeServer>> RangeServer::start(const RangeServerOptions& options,
                                                        const ServedFiles& files) {
  auto loop = std::make_unique<Loop>(files);
  RETURN_IF_ERROR(loop->open(options));
  return std::unique_ptr<RangeServer>(new RangeServer(std::move(loop)));
}

uint16_t RangeServer::port() const { return loop_->port(); }
Served RangeServer::served() const { return loop_->served(); }

}  // namespace forebay::io::serve
