// A RangeClient's connection to one server: one request at a time, over TCP or TLS.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/bytes.h"
#include "io/serve/range_client.h"

struct ssl_ctx_st;
struct ssl_st;

namespace forebay::io::serve {

// A request with its sink and its callback. Only the loop's thread touches it.
struct Flight {
  Flight(RangeRequest asked, http::Sink& into, RangeClient::Done then)
      : request(std::move(asked)), sink(into), done(std::move(then)) {}

  RangeRequest request;
  http::Sink& sink;
  RangeClient::Done done;
  bool was_sent_before = false;  // on a connection that turned out to be closed
  std::optional<std::stop_callback<std::function<void()>>> stopped = {};
  RangeOutcome outcome = {};
};

// Only the loop's thread touches it.
class AskingConnection final : public std::enable_shared_from_this<AskingConnection> {
 public:
  // A connection's callbacks to the loop. After `done` the loop may give it another request.
  struct Events {
    // The answer has come, or will not come. The connection may be asked again if it is open.
    std::function<void(std::unique_ptr<Flight>)> done;
    // A connection that had been used before was closed, and nothing of this answer had come.
    std::function<void(std::unique_ptr<Flight>)> stale;
    // The connection was closed without a request in flight.
    std::function<void()> closed;
  };

  // `tls` is null for plain TCP.
  AskingConnection(boost::asio::io_context& context, ssl_ctx_st* tls, Events events);
  ~AskingConnection();
  AskingConnection(const AskingConnection&) = delete;
  AskingConnection& operator=(const AskingConnection&) = delete;

  // Connects, and sends the flight's request. The connection must be established by `deadline_ns`.
  void connect(const boost::asio::ip::tcp::endpoint& server, int64_t deadline_ns,
               std::unique_ptr<Flight> flight);
  // Sends a request. Needs is_idle().
  void ask(std::unique_ptr<Flight> flight);
  bool is_idle() const { return state_ == State::kIdle; }
  bool is_open() const { return state_ != State::kClosed; }
  const Flight* flight() const { return flight_.get(); }
  // Whether it was not established in time, or was idle for so long that the server may close it.
  bool is_late(int64_t now_ns) const { return now_ns > deadline_ns_; }
  // Closes it; a request in flight ends with this status.
  void fail(Status status);

 private:
  enum class State : uint8_t { kConnecting, kShaking, kIdle, kSending, kHead, kBody, kClosed };
  using Parser = boost::beast::http::response_parser<boost::beast::http::empty_body>;

  void begin_request();
  void go_on();
  bool shake_hands();
  bool send();
  bool receive();
  bool take(size_t bytes);
  bool take_head();
  bool take_body(base::Bytes bytes);
  bool refuse(Status status);
  bool end_answer();
  void finish();
  void fail_because(std::string_view why);
  bool is_still_open();
  void close();
  // Read or write without waiting. They return the number of bytes, 0 at the end, -1 if the call
  // would wait, or -2 if the connection has failed.
  int64_t read_some(base::MutableBytes out);
  int64_t write_some(base::Bytes bytes);
  int64_t outcome_of_tls(int result);
  void wait_to_read();
  void wait_to_write();

  const Events events_;
  boost::asio::ip::tcp::socket socket_;
  ssl_st* tls_ = nullptr;
  State state_ = State::kConnecting;
  int64_t deadline_ns_ = 0;  // for being connected, or for the next request
  std::unique_ptr<Flight> flight_;
  bool waits_to_read_ = false;
  bool waits_to_write_ = false;
  bool is_used_ = false;    // an earlier answer has come
  bool has_begun_ = false;  // a part of this answer has come
  std::string out_;         // the request
  size_t sent_ = 0;
  std::unique_ptr<uint8_t[]> buffer_;
  size_t filled_ = 0;  // bytes of the head
  std::optional<Parser> parser_;
  uint64_t left_ = 0;  // bytes of the body to come
  bool is_kept_ = true;
  bool is_refused_ = false;  // the sink refused the answer: the rest is thrown away
};

}  // namespace forebay::io::serve
