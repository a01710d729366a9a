#include "io/serve/range_server.h"

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_static_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <deque>
#include <list>
#include <system_error>
#include <thread>

#include "base/limits.h"
#include "base/mutex.h"
#include "io/machine.h"
#include "io/serve/ranges_wanted.h"

namespace forebay::io::serve {

namespace asio = boost::asio;
namespace beast_http = boost::beast::http;
using asio::ip::tcp;
using base::Code;
using base::fail;
using boost::system::error_code;

namespace {

constexpr std::chrono::seconds kSweep(1);
constexpr int64_t kSecondNs = 1'000'000'000;
// A connection is closed when its client asks nothing for so long, or takes an answer more slowly
// than a network is ever meant to be.
constexpr int64_t kIdleNs = 60 * kSecondNs;
constexpr int64_t kTakingNs = 15 * kSecondNs;
constexpr int64_t kHandshakeNs = 5 * kSecondNs;
constexpr uint64_t kTakenBytesPerSecond = 1'000'000;
constexpr std::chrono::milliseconds kPause(100);

}  // namespace

class RangeServer::Loop {
 public:
  explicit Loop(const ServedFiles& files)
      : files_(files),
        work_(context_.get_executor()),
        acceptor_(context_),
        pause_(context_),
        sweeper_(context_) {}
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  Status open(const RangeServerOptions& options);
  uint16_t port() const { return port_; }
  Served served() const { return {requests_, refused_, bytes_}; }

 private:
  class Open;
  template <class Stream>
  class Connection;

  void accept();
  void begin(tcp::socket socket);
  Status set_certificate(const http::JobCertificate& job);
  void sweep();
  // Gives room for an answer now or later; `then` runs in the loop.
  void take_room(uint64_t bytes, std::function<void()> then);
  void give_room(uint64_t bytes);
  void end_if_idle() {
    if (ended_ && reads_ == 0) work_.reset();
  }

  const ServedFiles& files_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::optional<asio::ssl::context> tls_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  asio::steady_timer sweeper_;
  std::list<std::weak_ptr<Open>> connections_;
  std::deque<std::pair<uint64_t, std::function<void()>>> waiting_;  // for room
  uint64_t room_ = base::kServedBytesMax;
  uint64_t reads_ = 0;  // in flight
  bool ended_ = false;
  base::Mutex mutex_;  // held while another thread tells the loop of something
  uint16_t port_ = 0;
  std::atomic<uint64_t> requests_ = 0;
  std::atomic<uint64_t> refused_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
  std::thread thread_;
};

// A connection, as the loop sees it. Only the loop's thread touches it.
class RangeServer::Loop::Open {
 public:
  Open() = default;
  virtual ~Open() = default;
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
  virtual void close() = 0;
  bool is_late(int64_t now_ns) const { return now_ns > deadline_ns_; }

 protected:
  int64_t deadline_ns_ = 0;
};

// One client's requests, one after the other.
template <class Stream>
class RangeServer::Loop::Connection final
    : public Open,
      public std::enable_shared_from_this<RangeServer::Loop::Connection<Stream>> {
 public:
  Connection(Loop& loop, Stream stream) : loop_(loop), stream_(std::move(stream)) {}
  ~Connection() override { give_back(); }

  void begin() {
    if constexpr (std::is_same_v<Stream, tcp::socket>) {
      next_request();
    } else {
      deadline_ns_ = monotonic_ns() + kHandshakeNs;
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](error_code error) {
                                if (!error) return self->next_request();
                                ++self->loop_.refused_;
                                self->close();
                              });
    }
  }
  void close() override {
    error_code ignored;
    stream_.lowest_layer().close(ignored);
  }

 private:
  void next_request();
  void take_request();
  void refuse(std::string_view status, std::string_view why);
  void answer();
  void send_head();
  void send_bytes();
  void write(const std::vector<asio::const_buffer>& pieces, void (Connection::*then)());
  void finish();
  void give_back();

  Loop& loop_;
  Stream stream_;
  boost::beast::flat_static_buffer<base::kServedHeadBytesMax + 4096> buffer_;
  std::optional<beast_http::request_parser<beast_http::empty_body>> parser_;
  std::string path_;
  uint64_t size_ = 0;  // of the file
  std::vector<WantedRange> wanted_;
  uint64_t room_ = 0;  // that was taken for this answer
  base::ByteVector bytes_;
  std::vector<std::string> texts_;  // the head, and what stands between the ranges
  bool keep_ = true;
  bool head_sent_ = false;
  std::optional<Status> read_;
};

template <class Stream>
void RangeServer::Loop::Connection<Stream>::next_request() {
  parser_.emplace();
  parser_->header_limit(base::kServedHeadBytesMax);
  deadline_ns_ = monotonic_ns() + kIdleNs;
  beast_http::async_read_header(
      stream_, buffer_, *parser_, [self = this->shared_from_this()](error_code error, size_t) {
        if (!error) return self->take_request();
        const bool is_malformed =
            error.category() ==
            beast_http::make_error_code(beast_http::error::end_of_stream).category();
        if (!is_malformed || error == beast_http::error::end_of_stream) return self->close();
        self->refuse("400 Bad Request", "the request is malformed");
      });
}

template <class Stream>
void RangeServer::Loop::Connection<Stream>::take_request() {
  const auto& request = parser_->get();
  keep_ = request.keep_alive() && request.version() == 11;
  if (request.method() != beast_http::verb::get) {
    return refuse("405 Method Not Allowed", "only GET is answered here");
  }
  if (parser_->chunked() || parser_->content_length().value_or(0) > 0) {
    return refuse("400 Bad Request", "a request with a body");
  }
  const auto target = request.target();
  path_.assign(target.data(), target.size());
  const auto size = loop_.files_.size(path_);
  if (!size) return refuse("404 Not Found", "no such file");
  size_ = *size;
  const auto text = request[beast_http::field::range];
  auto wanted = parse_range_header({text.data(), text.size()}, size_);
  if (!wanted) return refuse("416 Range Not Satisfiable", wanted.error().message());
  wanted_ = std::move(*wanted);
  if (bytes_of(wanted_) > base::kServedAnswerBytesMax) {
    return refuse("416 Range Not Satisfiable", "the ranges have too many bytes");
  }
  // Nothing is late while the answer waits for room.
  deadline_ns_ = INT64_MAX;
  loop_.take_room(bytes_of(wanted_), [self = this->shared_from_this()] {
    self->room_ = bytes_of(self->wanted_);
    self->answer();
  });
}

template <class Stream>
void RangeServer::Loop::Connection<Stream>::refuse(std::string_view status, std::string_view why) {
  ++loop_.refused_;
  keep_ = false;
  texts_ = {
      fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\nContent-Type: text/plain\r\n"
                  "Connection: close\r\n\r\n{}",
                  status, why.size(), why)};
  write({asio::buffer(texts_[0])}, &Connection::finish);
}

// The head goes out at once, so that the client knows that somebody is there, also where the bytes
// have to come from far away.
template <class Stream>
void RangeServer::Loop::Connection<Stream>::answer() {
  read_.reset();
  head_sent_ = false;
  try {
    bytes_.resize(room_);
  } catch (const std::bad_alloc&) {
    return refuse("503 Service Unavailable", "no memory");
  }
  std::vector<Range> ranges;
  size_t at = 0;
  for (const WantedRange& range : wanted_) {
    ranges.push_back({range.offset, base::MutableBytes(bytes_).subspan(at, range.length)});
    at += range.length;
  }
  send_head();
  ++loop_.reads_;
  loop_.files_.read(path_, std::move(ranges), [self = this->shared_from_this()](Status status) {
    // The loop's end waits for the mutex, so that it does not go while it is told of this.
    base::MutexLock lock(self->loop_.mutex_);
    asio::post(self->loop_.context_, [self, status = std::move(status)] {
      --self->loop_.reads_;
      self->loop_.end_if_idle();
      self->read_ = status;
      self->send_bytes();
    });
  });
}

template <class Stream>
void RangeServer::Loop::Connection<Stream>::send_head() {
  texts_ = answer_texts(wanted_, size_, keep_);
  write({asio::buffer(texts_[0])}, &Connection::send_bytes);
}

// Runs when the head is out, and when the bytes are there; the second of these sends them.
template <class Stream>
void RangeServer::Loop::Connection<Stream>::send_bytes() {
  if (!std::exchange(head_sent_, true) || !read_) return;
  if (!read_->ok()) return close();
  ++loop_.requests_;
  loop_.bytes_ += bytes_.size();
  std::vector<asio::const_buffer> pieces;
  size_t at = 0;
  for (size_t i = 0; i < wanted_.size(); ++i) {
    pieces.push_back(asio::buffer(texts_[1 + i]));
    pieces.push_back(asio::buffer(bytes_.data() + at, wanted_[i].length));
    at += wanted_[i].length;
  }
  pieces.push_back(asio::buffer(texts_.back()));
  write(pieces, &Connection::finish);
}

template <class Stream>
void RangeServer::Loop::Connection<Stream>::write(const std::vector<asio::const_buffer>& pieces,
                                                  void (Connection::*then)()) {
  const auto bytes = asio::buffer_size(pieces);
  deadline_ns_ =
      monotonic_ns() + kTakingNs + static_cast<int64_t>(bytes / kTakenBytesPerSecond) * kSecondNs;
  asio::async_write(stream_, pieces,
                    [self = this->shared_from_this(), then](error_code error, size_t) {
                      if (error) return self->close();
                      self->deadline_ns_ = INT64_MAX;
                      (*self.*then)();
                    });
}

template <class Stream>
void RangeServer::Loop::Connection<Stream>::finish() {
  give_back();
  if (!keep_ || loop_.ended_) return close();
  next_request();
}

template <class Stream>
void RangeServer::Loop::Connection<Stream>::give_back() {
  bytes_ = {};
  if (room_ > 0) loop_.give_room(std::exchange(room_, 0));
}

Status RangeServer::Loop::set_certificate(const http::JobCertificate& job) try {
  asio::ssl::context& tls = tls_.emplace(asio::ssl::context::tls_server);
  if (SSL_CTX_set_min_proto_version(tls.native_handle(), TLS1_3_VERSION) != 1) {
    return fail(Code::kIo, "OpenSSL does not speak TLS 1.3");
  }
  const std::string_view key = job.key.reveal();
  tls.use_certificate(asio::buffer(job.certificate), asio::ssl::context::pem);
  tls.use_private_key(asio::buffer(key), asio::ssl::context::pem);
  tls.add_certificate_authority(asio::buffer(job.certificate));
  tls.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
  return {};
} catch (const boost::system::system_error& error) {
  return fail(Code::kIo, "OpenSSL does not take the job's certificate: {}", error.code().message());
}

Status RangeServer::Loop::open(const RangeServerOptions& options) try {
  if (options.job != nullptr) {
    RETURN_IF_ERROR(set_certificate(*options.job));
  } else if (!asio::ip::make_address(options.address).is_loopback()) {
    return fail(Code::kInvalid,
                "{} is not an address of this machine alone: without a secret only such a one is "
                "served",
                options.address);
  }
  const tcp::endpoint place(asio::ip::make_address(options.address), options.port);
  acceptor_.open(place.protocol());
  acceptor_.set_option(tcp::acceptor::reuse_address(true));
  acceptor_.bind(place);
  acceptor_.listen();
  port_ = acceptor_.local_endpoint().port();
  accept();
  sweep();
  thread_ = std::thread([this] {
    work_in_background();
    context_.run();
  });
  return {};
} catch (const boost::system::system_error& error) {
  return fail(Code::kUnavailable, "cannot listen on {} port {}: {}", options.address, options.port,
              error.code().message());
} catch (const std::system_error& error) {
  return fail(Code::kNoMemory, "cannot begin a thread for a server ({})", error.what());
}

RangeServer::Loop::~Loop() {
  if (!thread_.joinable()) return;
  asio::post(context_, [this] {
    ended_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    sweeper_.cancel();
    waiting_.clear();
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
    if (error) {  // no descriptors are left: others may end meanwhile
      pause_.expires_after(kPause);
      return pause_.async_wait([this](error_code) {
        if (!ended_) accept();
      });
    }
    if (connections_.size() < base::kServedConnectionsMax) {
      error_code ignored;
      socket.set_option(tcp::no_delay(true), ignored);
      begin(std::move(socket));
    } else {
      ++refused_;
    }
    accept();
  });
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
  connections_.remove_if([&](const std::weak_ptr<Open>& weak) {
    const auto connection = weak.lock();
    if (connection != nullptr && connection->is_late(now_ns)) connection->close();
    return connection == nullptr;
  });
  sweeper_.expires_after(kSweep);
  sweeper_.async_wait([this](error_code) {
    if (!ended_) sweep();
  });
}

void RangeServer::Loop::take_room(uint64_t bytes, std::function<void()> then) {
  if (!waiting_.empty() || bytes > room_) {
    waiting_.emplace_back(bytes, std::move(then));
    return;
  }
  room_ -= bytes;
  then();
}

void RangeServer::Loop::give_room(uint64_t bytes) {
  room_ += bytes;
  while (!waiting_.empty() && waiting_.front().first <= room_) {
    room_ -= waiting_.front().first;
    const auto then = std::move(waiting_.front().second);
    waiting_.pop_front();
    asio::post(context_, then);
  }
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
