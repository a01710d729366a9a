// A RangeServer's connection to one client, which answers one request after the other, over TCP or
// TLS. Sending of held ranges is in connection_sending.h.
#pragma once

#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_static_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include "io/children.h"
#include "io/machine.h"
#include "io/serve/needed_again.h"
#include "io/serve/own_host.h"
#include "io/serve/prefetch_answer.h"
#include "io/serve/server_loop.h"

namespace forebay::io::serve {

// Only the loop's thread touches it.
template <class Stream>
class Connection final : public OpenConnection,
                         public std::enable_shared_from_this<Connection<Stream>> {
 public:
  using Loop = RangeServer::Loop;
  using error_code = boost::system::error_code;
  static constexpr bool kIsPlain = std::is_same_v<Stream, boost::asio::ip::tcp::socket>;

  Connection(Loop& loop, Stream stream)
      : loop_(loop), stream_(std::move(stream)), later_(stream_.get_executor()) {
    close_in_children(socket());
  }
  ~Connection() override {
    close();
    give_back();
  }

  void begin() {
    if constexpr (kIsPlain) {
      error_code ignored;
      stream_.native_non_blocking(true, ignored);
      next_request();
    } else {
      is_clients_turn_ = true;
      deadline_ns_ = monotonic_ns() + kHandshakeNs;
      stream_.async_handshake(boost::asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](error_code error) {
                                if (!error) return self->next_request();
                                self->loop_.count_refused();
                                self->close();
                              });
    }
  }
  void close() override {
    if (asking_) asking_->request_stop();
    error_code ignored;
    keep_in_children(socket());
    stream_.lowest_layer().close(ignored);
  }

 private:
  static constexpr int64_t kSecondNs = 1'000'000'000;
  // A connection is closed if its client sends no request for kIdleNs, or takes longer to receive
  // an answer than kTakingNs and the time at kTakenBytesPerSecond, which is slower than any network
  // should be.
  static constexpr int64_t kIdleNs = 60 * kSecondNs;
  static constexpr int64_t kTakingNs = 15 * kSecondNs;
  static constexpr int64_t kHandshakeNs = 5 * kSecondNs;
  // How often to look for a file that is not there yet.
  static constexpr std::chrono::milliseconds kLook{20};
  static constexpr uint64_t kTakenBytesPerSecond = 1'000'000;
  // The most bytes that are sent before other connections have their turn, and that are encrypted
  // at once.
  static constexpr uint64_t kTurnBytes = 2u << 20;
  static constexpr uint64_t kEncryptedBytes = 64u << 10;

  void next_request();
  void take_request();
  void take_body();
  bool ask(std::string body);
  void watch_client();
  void send_made(Result<MadeAnswer> made);
  std::string_view header(std::string_view name) const;  // empty if the request has none
  void take_file(int64_t deadline_ns);
  void take_ranges();
  void refuse(std::string_view status, std::string_view why);
  void say(std::string_view status, std::string_view why);
  void answer();
  void send_bytes();
  void write(const std::vector<boost::asio::const_buffer>& pieces, void (Connection::*then)());
  // A part of an answer that can be sent as it is: bytes in memory, or in a file.
  struct Segment {
    Bytes bytes = {};
    const ScratchFile* file = nullptr;
    uint64_t offset = 0;
    uint64_t length = 0;
  };

  void send_held(std::vector<HeldRange> held);
  void begin_sending(uint64_t bytes);
  void send_segments();
  ssize_t send_plain();
  void send_encrypted();
  Bytes encrypt(Bytes bytes);
  void move_on(uint64_t sent);
  void finish();
  void give_back();
  void expect_taking(uint64_t bytes) {
    deadline_ns_ =
        monotonic_ns() + kTakingNs + static_cast<int64_t>(bytes / kTakenBytesPerSecond) * kSecondNs;
  }
  int socket() { return stream_.lowest_layer().native_handle(); }

  Loop& loop_;
  Stream stream_;
  boost::asio::steady_timer later_;
  boost::beast::flat_static_buffer<base::kServedHeadBytesMax + 4096> buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::empty_body>> parser_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> body_parser_;
  std::optional<std::stop_source> asking_;  // while an answer is made
  std::shared_ptr<const void> made_;        // owns the bytes that are sent
  std::string path_;
  uint64_t size_ = 0;  // of the file
  std::vector<WantedRange> wanted_;
  std::vector<WantedRange> cuts_;  // the wanted ranges, cut by when they are needed again
  uint64_t room_ = 0;              // bytes of memory taken for this answer
  Loop::For whom_ = Loop::For::kAnyone;
  base::ByteVector bytes_;
  std::vector<std::string> texts_;  // the head, and the text between the ranges
  bool keep_ = true;
  bool head_sent_ = false;
  std::optional<Status> read_;
  std::vector<HeldRange> held_;
  std::vector<Segment> segments_;
  size_t next_segment_ = 0;           // the segments before it have been sent
  std::unique_ptr<uint8_t[]> chunk_;  // plain bytes to encrypt at once
  struct FreeBio {
    void operator()(BIO* bio) const { BIO_free(bio); }
  };
  std::unique_ptr<BIO, FreeBio> records_;  // the same bytes as TLS records
};

template <class Stream>
void Connection<Stream>::next_request() {
  namespace http = boost::beast::http;
  parser_.emplace();
  parser_->header_limit(base::kServedHeadBytesMax);
  parser_->body_limit(UINT64_MAX);  // take_body() checks the length
  is_clients_turn_ = true;
  deadline_ns_ = monotonic_ns() + kIdleNs;
  http::async_read_header(
      stream_, buffer_, *parser_, [self = this->shared_from_this()](error_code error, size_t) {
        if (!error) return self->take_request();
        const bool is_malformed =
            error.category() == http::make_error_code(http::error::end_of_stream).category();
        if (!is_malformed || error == http::error::end_of_stream) return self->close();
        self->refuse("400 Bad Request", "the request is malformed");
      });
}

template <class Stream>
void Connection<Stream>::take_request() {
  is_clients_turn_ = false;
  const auto& request = parser_->get();
  keep_ = request.keep_alive() && request.version() == 11;
  const auto target = request.target();
  path_.assign(target.data(), target.size());
  if (kIsPlain && !is_own_request(header("Host"), header("Origin"))) {
    return refuse("403 Forbidden", "the request may come from a web page of another site");
  }
  if (!loop_.proofs().empty() && !is_bearer(header("Authorization"), loop_.proofs().of_client)) {
    return refuse("401 Unauthorized", "only processes of the user who runs this server are served");
  }
  if (request.method() == boost::beast::http::verb::post) return take_body();
  if (request.method() != boost::beast::http::verb::get) {
    return refuse("405 Method Not Allowed", "only GET and POST are answered here");
  }
  if (parser_->chunked() || parser_->content_length().value_or(0) > 0) {
    return refuse("400 Bad Request", "a GET must not have a body");
  }
  if (!ask({})) take_file(loop_.wait_until_ns(path_));
}

template <class Stream>
void Connection<Stream>::take_body() {
  const auto length = parser_->content_length();
  if (parser_->chunked() || !length) {
    return refuse("411 Length Required", "the request does not say how long its body is");
  }
  if (*length > base::kServedBodyBytesMax) {
    return refuse("413 Content Too Large", "the request's body is too long");
  }
  body_parser_.emplace(std::move(*parser_));
  is_clients_turn_ = true;
  deadline_ns_ = monotonic_ns() + kTakingNs;
  boost::beast::http::async_read(
      stream_, buffer_, *body_parser_, [self = this->shared_from_this()](error_code error, size_t) {
        self->is_clients_turn_ = false;
        if (error) return self->close();
        if (!self->ask(std::move(self->body_parser_->get().body()))) {
          self->refuse("405 Method Not Allowed", "no POST is answered at this path");
        }
      });
}

// Has an answer made if the path names a question. Returns whether it does.
template <class Stream>
bool Connection<Stream>::ask(std::string body) {
  deadline_ns_ = INT64_MAX;
  asking_.emplace();
  const bool is_asked =
      loop_.ask({.path = path_, .body = std::move(body), .unwanted = asking_->get_token()},
                [self = this->shared_from_this()](Result<MadeAnswer> made) {
                  self->send_made(std::move(made));
                });
  if (is_asked) {
    watch_client();
  } else {
    asking_.reset();
  }
  return is_asked;
}

// A client sends nothing while it waits. So anything that comes means that it has given up.
template <class Stream>
void Connection<Stream>::watch_client() {
  stream_.lowest_layer().async_wait(boost::asio::socket_base::wait_read,
                                    [self = this->shared_from_this()](error_code error) {
                                      if (!error && self->asking_) self->close();
                                    });
}

template <class Stream>
void Connection<Stream>::send_made(Result<MadeAnswer> made) {
  asking_.reset();
  error_code ignored;
  stream_.lowest_layer().cancel(ignored);  // the wait of watch_client()
  if (!made) {
    loop_.count_refused();
    return say(status_of(made.error().code()), made.error().message());
  }
  uint64_t bytes = 0;
  for (const Bytes piece : made->pieces) bytes += piece.size();
  made_ = std::move(made->owner);
  texts_ = {fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{}\r\n", bytes,
                        keep_ ? "" : "Connection: close\r\n")};
  segments_ = {{.bytes = base::as_bytes(texts_[0]), .length = texts_[0].size()}};
  for (const Bytes piece : made->pieces) {
    if (!piece.empty()) segments_.push_back({.bytes = piece, .length = piece.size()});
  }
  begin_sending(bytes);
}

template <class Stream>
std::string_view Connection<Stream>::header(std::string_view name) const {
  const auto text = parser_->get()[boost::beast::string_view(name.data(), name.size())];
  return {text.data(), text.size()};
}

template <class Stream>
void Connection<Stream>::take_file(int64_t deadline_ns) {
  const auto size = loop_.files().size(path_);
  if (size) {
    size_ = *size;
    return take_ranges();
  }
  // Requests about held bytes are answered at once, because nothing is held of an unknown file.
  const bool may_wait = header(kHeldHeader).empty() && header(kPrefetchHeader).empty() &&
                        header(kWrongHeader).empty();
  if (!may_wait || loop_.has_ended() || monotonic_ns() >= deadline_ns) {
    if (may_wait) loop_.note_unknown(path_);
    loop_.count_refused();
    return say("404 Not Found", "no such file");
  }
  deadline_ns_ = INT64_MAX;
  later_.expires_after(kLook);
  later_.async_wait(
      [self = this->shared_from_this(), deadline_ns](error_code) { self->take_file(deadline_ns); });
}

template <class Stream>
void Connection<Stream>::take_ranges() {
  auto wanted = parse_range_header(header("Range"), size_);
  if (!wanted) return refuse("416 Range Not Satisfiable", wanted.error().message());
  wanted_ = std::move(*wanted);
  if (bytes_of(wanted_) > base::kServedAnswerBytesMax) {
    return refuse("416 Range Not Satisfiable", "the ranges have too many bytes");
  }
  auto cuts = cut_by_again(wanted_, header(kAgainHeader));
  if (!cuts) return refuse("400 Bad Request", cuts.error().message());
  cuts_ = std::move(*cuts);
  if (!header(kWrongHeader).empty()) {
    loop_.files().forget(path_, wanted_);
    return say("404 Not Found", "the ranges are no longer held");
  }
  whom_ = header(kHoldHeader).empty() ? Loop::For::kAnyone : Loop::For::kFullMember;
  if (!header(kPrefetchHeader).empty()) {
    return say(fmt::format("{} Ahead", code_of(loop_.files().prefetch(path_, wanted_))), {});
  }
  if (header(kDoubtHeader).empty()) {
    auto held = loop_.files().find(path_, cuts_);
    if (held && loop_.take_room_now(whom_, bytes_in_memory(*held))) {
      room_ = bytes_in_memory(*held);
      return send_held(join_held(wanted_, cuts_, std::move(*held)));
    }
  }
  if (!header(kHeldHeader).empty()) return say("404 Not Found", "the ranges are not held here");
  if (whom_ == Loop::For::kFullMember && !loop_.files().may_hold(path_, wanted_)) {
    return say("404 Not Found", "there is no room for the ranges");
  }
  // There is no deadline while the answer waits for memory.
  deadline_ns_ = INT64_MAX;
  loop_.take_room(whom_, bytes_of(wanted_), [self = this->shared_from_this()] {
    self->room_ = bytes_of(self->wanted_);
    self->answer();
  });
}

// Answers with an error, and closes the connection.
template <class Stream>
void Connection<Stream>::refuse(std::string_view status, std::string_view why) {
  loop_.count_refused();
  keep_ = false;
  say(status, why);
}

template <class Stream>
void Connection<Stream>::say(std::string_view status, std::string_view why) {
  texts_ = {fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\nContent-Type: text/plain\r\n{}\r\n{}",
                        status, why.size(), keep_ ? "" : "Connection: close\r\n", why)};
  write({boost::asio::buffer(texts_[0])}, &Connection::finish);
}

// The head is sent at once, so that the client knows that the server works on the answer, even if
// the bytes have to come from far away.
template <class Stream>
void Connection<Stream>::answer() {
  read_.reset();
  head_sent_ = false;
  try {
    bytes_.resize(room_);
  } catch (const std::bad_alloc&) {
    return refuse("503 Service Unavailable", "no memory");
  }
  std::vector<Range> ranges;
  size_t at = 0;
  for (const WantedRange& range : cuts_) {
    ranges.push_back(
        {range.offset, base::MutableBytes(bytes_).subspan(at, range.length), range.again});
    at += range.length;
  }
  texts_ = answer_texts(wanted_, size_, keep_, {}, loop_.proofs().of_server);
  write({boost::asio::buffer(texts_[0])}, &Connection::send_bytes);
  loop_.read(whom_, path_, std::move(ranges), [self = this->shared_from_this()](Status status) {
    self->read_ = std::move(status);
    self->send_bytes();
  });
}

// Runs when the head has been sent, and when the bytes have been read; the second call sends the
// bytes.
template <class Stream>
void Connection<Stream>::send_bytes() {
  if (!std::exchange(head_sent_, true) || !read_) return;
  if (!read_->ok()) return close();
  loop_.count_answer(bytes_.size());
  std::vector<boost::asio::const_buffer> pieces;
  size_t at = 0;
  for (size_t i = 0; i < wanted_.size(); ++i) {
    pieces.push_back(boost::asio::buffer(texts_[1 + i]));
    pieces.push_back(boost::asio::buffer(bytes_.data() + at, wanted_[i].length));
    at += wanted_[i].length;
  }
  pieces.push_back(boost::asio::buffer(texts_.back()));
  write(pieces, &Connection::finish);
}

template <class Stream>
void Connection<Stream>::write(const std::vector<boost::asio::const_buffer>& pieces,
                               void (Connection::*then)()) {
  expect_taking(boost::asio::buffer_size(pieces));
  boost::asio::async_write(stream_, pieces,
                           [self = this->shared_from_this(), then](error_code error, size_t) {
                             if (error) return self->close();
                             self->deadline_ns_ = INT64_MAX;
                             (*self.*then)();
                           });
}

template <class Stream>
void Connection<Stream>::finish() {
  deadline_ns_ = INT64_MAX;
  held_.clear();
  made_.reset();
  give_back();
  if (!keep_ || loop_.has_ended()) return close();
  next_request();
}

template <class Stream>
void Connection<Stream>::give_back() {
  bytes_ = {};
  if (room_ > 0) loop_.give_room(whom_, std::exchange(room_, 0));
}

}  // namespace forebay::io::serve
