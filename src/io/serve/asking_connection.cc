#include "io/serve/asking_connection.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>

#include "base/limits.h"
#include "io/ascii.h"
#include "io/children.h"
#include "io/machine.h"

namespace forebay::io::serve {

using base::Bytes;
using base::Code;
using base::MutableBytes;
using boost::system::error_code;

namespace {

constexpr size_t kBufferBytes = 128u << 10;
// The most bytes that a connection reads before others have their turn.
constexpr size_t kTurnBytes = 1u << 20;
// Servers close connections that are idle for 60 s.
constexpr int64_t kIdleNs = 50'000'000'000;
constexpr int64_t kWouldWait = -1;
constexpr int64_t kBroken = -2;

std::string text_of(const RangeRequest& request) {
  const bool is_ipv6 = request.host.find(':') != std::string::npos;
  std::string text =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}:{}\r\n", request.body ? "POST" : "GET",
                  request.target, is_ipv6 ? "[" + request.host + "]" : request.host, request.port);
  for (const std::string& header : request.headers) text += header + "\r\n";
  if (request.body) text += fmt::format("Content-Length: {}\r\n", request.body->size());
  return text + "\r\n" + request.body.value_or("");
}

}  // namespace

AskingConnection::AskingConnection(boost::asio::io_context& context, ssl_ctx_st* tls, Events events)
    : events_(std::move(events)),
      socket_(context),
      buffer_(std::make_unique_for_overwrite<uint8_t[]>(kBufferBytes)) {
  if (tls == nullptr) return;
  tls_ = SSL_new(tls);
  if (tls_ == nullptr) throw std::bad_alloc();
  SSL_set_connect_state(tls_);
}

AskingConnection::~AskingConnection() {
  close();
  SSL_free(tls_);
}

void AskingConnection::connect(const boost::asio::ip::tcp::endpoint& server, int64_t deadline_ns,
                               std::unique_ptr<Flight> flight) {
  flight_ = std::move(flight);
  deadline_ns_ = deadline_ns;
  error_code error;
  socket_.open(server.protocol(), error);
  if (error) {
    return boost::asio::post(socket_.get_executor(), [self = shared_from_this(), error] {
      if (self->is_open()) self->fail_because(error.message());
    });
  }
  close_in_children(socket_.native_handle());
  socket_.async_connect(server, [self = shared_from_this()](error_code failed) {
    if (self->state_ != State::kConnecting) return;
    if (failed) return self->fail_because(failed.message());
    error_code ignored;
    self->socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
    self->socket_.native_non_blocking(true, ignored);
    fail_when_gone(self->socket_.native_handle());
    self->state_ = State::kShaking;
    if (self->tls_ != nullptr && SSL_set_fd(self->tls_, self->socket_.native_handle()) != 1) {
      return self->fail_because("OpenSSL has no memory");
    }
    self->go_on();
  });
}

void AskingConnection::ask(std::unique_ptr<Flight> flight) {
  flight_ = std::move(flight);
  begin_request();
  go_on();
}

void AskingConnection::begin_request() {
  deadline_ns_ = INT64_MAX;
  out_ = text_of(flight_->request);
  sent_ = 0;
  has_begun_ = false;
  state_ = State::kSending;
}

// Goes on as far as possible without waiting.
void AskingConnection::go_on() {
  if (state_ == State::kShaking && !shake_hands()) return;
  if (state_ == State::kSending) {
    if (send()) wait_to_read();
    return;
  }
  if (state_ == State::kHead || state_ == State::kBody) {
    if (receive()) finish();
    return;
  }
  if (state_ != State::kIdle) return;
  if (is_still_open()) return wait_to_read();
  fail({});
}

bool AskingConnection::shake_hands() {
  if (tls_ != nullptr) {
    ERR_clear_error();
    const int64_t done = outcome_of_tls(SSL_do_handshake(tls_));
    if (done == kWouldWait) {
      if (SSL_want_write(tls_) != 0) {
        wait_to_write();
      } else {
        wait_to_read();
      }
      return false;
    }
    if (done <= 0) {
      const char* const why = ERR_reason_error_string(ERR_peek_last_error());
      fail_because(fmt::format("the TLS handshake failed ({}); do both have the same secret?",
                               why == nullptr ? "cut" : why));
      return false;
    }
  }
  begin_request();
  return true;
}

bool AskingConnection::send() {
  while (sent_ < out_.size()) {
    const int64_t sent = write_some(base::as_bytes(out_).subspan(sent_));
    if (sent == kWouldWait) {
      wait_to_write();
      return false;
    }
    if (sent <= 0) {
      fail_because("the connection broke");
      return false;
    }
    sent_ += static_cast<size_t>(sent);
  }
  state_ = State::kHead;
  filled_ = 0;
  parser_.emplace();
  parser_->header_limit(base::kServedHeadBytesMax);
  parser_->skip(true);
  return true;
}

// Returns whether the whole answer has come.
bool AskingConnection::receive() {
  size_t turn = 0;
  while (turn < kTurnBytes) {
    const size_t from = state_ == State::kHead ? filled_ : 0;
    const int64_t got = read_some({buffer_.get() + from, kBufferBytes - from});
    if (got == kWouldWait) {
      wait_to_read();
      return false;
    }
    if (got <= 0) {
      if (state_ == State::kHead) {
        fail_because("the server hung up");
      } else {
        fail({Code::kTruncated, "the server hung up within its answer"});
      }
      return false;
    }
    has_begun_ = true;
    turn += static_cast<size_t>(got);
    if (take(static_cast<size_t>(got))) return true;
    if (state_ == State::kClosed) return false;
  }
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] { self->go_on(); });
  return false;
}

// Takes this many new bytes in the buffer. Returns whether they end the answer.
bool AskingConnection::take(size_t bytes) {
  if (state_ == State::kBody) return take_body({buffer_.get(), bytes});
  filled_ += bytes;
  error_code error;
  const size_t used = parser_->put(boost::asio::buffer(buffer_.get(), filled_), error);
  if (error == boost::beast::http::error::need_more && filled_ < kBufferBytes) {
    std::memmove(buffer_.get(), buffer_.get() + used, filled_ - used);
    filled_ -= used;
    return false;
  }
  if (error || !parser_->is_header_done()) {
    fail_because("the answer is not HTTP");
    return false;
  }
  const Bytes rest{buffer_.get() + used, filled_ - used};
  if (take_head()) return true;
  return state_ == State::kBody && !rest.empty() && take_body(rest);
}

bool AskingConnection::take_head() {
  const auto& message = parser_->get();
  const auto length = parser_->content_length();
  http::Head& head = flight_->outcome.head;
  head = {.code = static_cast<int>(message.result_int())};
  for (const auto& field : message) {
    const auto name = field.name_string();
    const auto value = field.value();
    head.headers.emplace_back(lower({name.data(), name.size()}),
                              std::string(value.data(), value.size()));
  }
  if (parser_->chunked() || !length || head.code < 200) {
    fail_because("the answer does not say its length (Content-Length)");
    return false;
  }
  left_ = *length;
  is_kept_ = message.keep_alive();
  is_refused_ = false;
  state_ = State::kBody;
  Status status = flight_->sink.begin(head);
  if (!status.ok() && !refuse(std::move(status))) return false;
  return left_ == 0 && end_answer();
}

// For an answer that the sink refuses. If its rest is short, returns true: the rest is received and
// thrown away, so that the connection can be used again. Else closes the connection.
bool AskingConnection::refuse(Status status) {
  if (left_ > base::kHttpErrorBytesMax) {
    fail(std::move(status));
    return false;
  }
  flight_->outcome.status = std::move(status);
  is_refused_ = true;
  return true;
}

bool AskingConnection::take_body(Bytes bytes) {
  if (bytes.size() > left_) {
    fail_because("the answer is longer than it says");
    return false;
  }
  left_ -= bytes.size();
  if (!is_refused_) {
    Status status = flight_->sink.append(bytes);
    if (!status.ok() && !refuse(std::move(status))) return false;
    if (!is_refused_ && left_ > 0 && flight_->sink.has_enough()) {
      is_kept_ = false;
      left_ = 0;
    }
  }
  return left_ == 0 && end_answer();
}

bool AskingConnection::end_answer() {
  if (!is_refused_) flight_->outcome.status = flight_->sink.end();
  return true;
}

void AskingConnection::finish() {
  is_used_ = true;
  if (is_kept_) {
    state_ = State::kIdle;
    deadline_ns_ = monotonic_ns() + kIdleNs;
  } else {
    close();
  }
  const auto self = shared_from_this();
  events_.done(std::move(flight_));
  if (state_ == State::kIdle) wait_to_read();
}

void AskingConnection::fail_because(std::string_view why) {
  fail({Code::kUnavailable, fmt::format("the other process: {}", why)});
}

void AskingConnection::fail(Status status) {
  const auto self = shared_from_this();
  const bool is_stale = is_used_ && !has_begun_ && status.code() == Code::kUnavailable;
  close();
  if (flight_ == nullptr) return events_.closed();
  if (is_stale && !flight_->was_sent_before) return events_.stale(std::move(flight_));
  flight_->outcome.status = std::move(status);
  events_.done(std::move(flight_));
}

// An idle server sends nothing, except TLS tickets, which OpenSSL takes.
bool AskingConnection::is_still_open() {
  uint8_t byte = 0;
  return read_some({&byte, 1}) == kWouldWait;
}

void AskingConnection::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  if (!socket_.is_open()) return;
  keep_in_children(socket_.native_handle());
  error_code ignored;
  socket_.close(ignored);
}

int64_t AskingConnection::read_some(MutableBytes out) {
  if (tls_ != nullptr) {
    ERR_clear_error();
    return outcome_of_tls(SSL_read(tls_, out.data(), static_cast<int>(out.size())));
  }
  const ssize_t got = ::recv(socket_.native_handle(), out.data(), out.size(), MSG_DONTWAIT);
  if (got >= 0) return got;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? kWouldWait : kBroken;
}

int64_t AskingConnection::write_some(Bytes bytes) {
  if (tls_ != nullptr) {
    ERR_clear_error();
    return outcome_of_tls(SSL_write(tls_, bytes.data(), static_cast<int>(bytes.size())));
  }
  const ssize_t sent =
      ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) return sent;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? kWouldWait : kBroken;
}

int64_t AskingConnection::outcome_of_tls(int result) {
  if (result > 0) return result;
  const int why = SSL_get_error(tls_, result);
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return kWouldWait;
  return why == SSL_ERROR_ZERO_RETURN ? 0 : kBroken;
}

void AskingConnection::wait_to_read() {
  if (waits_to_read_) return;
  waits_to_read_ = true;
  socket_.async_wait(boost::asio::socket_base::wait_read,
                     [self = shared_from_this()](error_code error) {
                       self->waits_to_read_ = false;
                       if (!error && self->is_open()) self->go_on();
                     });
}

void AskingConnection::wait_to_write() {
  if (waits_to_write_) return;
  waits_to_write_ = true;
  socket_.async_wait(boost::asio::socket_base::wait_write,
                     [self = shared_from_this()](error_code error) {
                       self->waits_to_write_ = false;
                       if (!error && self->is_open()) self->go_on();
                     });
}

}  // namespace forebay::io::serve
