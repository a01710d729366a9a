#include "io/serve/page_server.h"

#include <openssl/evp.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <list>
#include <system_error>
#include <thread>

#include "base/checksum.h"
#include "base/limits.h"
#include "io/machine.h"
#include "io/serve/own_host.h"
#include "io/serve/own_user.h"

namespace forebay::io::serve {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using base::Code;
using base::fail;
using base::Status;
using boost::system::error_code;

namespace {

// How long a client may take to send its request, or to receive its answer.
constexpr std::chrono::seconds kPatience(10);
constexpr std::chrono::milliseconds kPause(100);

using Request = http::request<http::empty_body>;
using Answer = http::response<http::string_body>;

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

Answer make_answer(http::status status, Page page) {
  Answer answer(status, 11);
  answer.set(http::field::content_type, page.type);
  answer.set(http::field::cache_control, "no-store");
  answer.set("Content-Security-Policy", page.policy);
  answer.set("X-Content-Type-Options", "nosniff");
  answer.body() = std::move(page.body);
  answer.prepare_payload();
  return answer;
}

Answer refusal(http::status status, std::string why) {
  return make_answer(status, {.type = "text/plain; charset=utf-8", .body = std::move(why) + "\n"});
}

// The value of the first parameter "token" of a target's query; empty if there is none.
std::string_view token_in(std::string_view target) {
  for (size_t at = target.find('?'); at != std::string_view::npos; at = target.find('&', at + 1)) {
    constexpr std::string_view kName = "token=";
    const std::string_view rest = target.substr(at + 1);
    if (rest.starts_with(kName)) return rest.substr(kName.size(), rest.find('&') - kName.size());
  }
  return {};
}

bool has_token(const Request& request, const std::string& token) {
  const std::string_view given = token_in(view(request.target()));
  if (token.empty() || is_proof(given, token)) return true;
  return given.empty() && is_bearer(view(request[http::field::authorization]), token);
}

Answer answer_to(const Request& request, const PageServerOptions& options, const Pages& pages) {
  if (!is_own_request(view(request[http::field::host]), view(request[http::field::origin]),
                      options.names)) {
    return refusal(http::status::forbidden,
                   "this server is addressed by its IP address, as localhost, or by the name that "
                   "it was started with");
  }
  if (!has_token(request, options.token)) {
    return refusal(http::status::unauthorized,
                   "open the address that the server printed when it started; it ends with "
                   "?token=…");
  }
  const bool is_head = request.method() == http::verb::head;
  if (!is_head && request.method() != http::verb::get) {
    Answer answer = refusal(http::status::method_not_allowed, "only GET and HEAD are answered");
    answer.set(http::field::allow, "GET, HEAD");
    return answer;
  }
  const std::string_view target = view(request.target());
  auto page = pages(std::string(target.substr(0, target.find('?'))));
  Answer answer = page ? make_answer(http::status::ok, std::move(*page))
                       : refusal(http::status::not_found, "there is no such page");
  if (is_head) answer.body().clear();  // the head keeps its length
  return answer;
}

}  // namespace

std::string policy_hash(std::string_view text) {
  const base::Sha256 hash = base::sha256(base::as_bytes(text));
  std::array<unsigned char, 4 * ((sizeof(hash) + 2) / 3) + 1> encoded{};
  ::EVP_EncodeBlock(encoded.data(), hash.data(), static_cast<int>(hash.size()));
  return fmt::format("'sha256-{}'", reinterpret_cast<const char*>(encoded.data()));
}

class PageServer::Loop {
 public:
  Loop(const PageServerOptions& options, Pages pages)
      : options_(options), pages_(std::move(pages)) {}
  ~Loop() {
    if (!thread_.joinable()) return;
    asio::post(context_, [this] { context_.stop(); });
    thread_.join();
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  Status open() try {
    error_code error;
    const auto place = asio::ip::make_address(options_.address, error);
    if (error) return fail(Code::kInvalid, "{} is not an IP address", options_.address);
    const tcp::endpoint endpoint(place, options_.port);
    acceptor_.open(endpoint.protocol());
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    acceptor_.bind(endpoint);
    acceptor_.listen();
    port_ = acceptor_.local_endpoint().port();
    accept();
    thread_ = std::thread([this] {
      work_in_background();
      block_signal_of_closed_pipe();
      context_.run();
    });
    return {};
  } catch (const boost::system::system_error& error) {
    return fail(Code::kUnavailable, "cannot listen on {} port {}: {}", options_.address,
                options_.port, error.code().message());
  } catch (const std::system_error& error) {
    return fail(Code::kNoMemory, "cannot start a thread for a server ({})", error.what());
  }

  uint16_t port() const { return port_; }

 private:
  class Connection;
  void accept();

  const PageServerOptions options_;
  const Pages pages_;
  std::list<Connection*> connections_;  // the one that has waited longest for its client first
  asio::io_context context_{1};         // its destructor ends the remaining connections
  tcp::acceptor acceptor_{context_};
  asio::steady_timer pause_{context_};
  uint16_t port_ = 0;
  std::thread thread_;
};

// One client's requests, one after the other. Only the loop's thread touches it.
class PageServer::Loop::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Loop& loop, tcp::socket socket) : loop_(loop), stream_(std::move(socket)) {
    own_ = loop_.connections_.insert(loop_.connections_.end(), this);
  }
  ~Connection() { loop_.connections_.erase(own_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Its reads and writes end with an error.
  void close() { stream_.close(); }

  void next_request() {
    loop_.connections_.splice(loop_.connections_.end(), loop_.connections_, own_);
    parser_.emplace();
    parser_->header_limit(base::kServedHeadBytesMax);
    stream_.expires_after(kPatience);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = this->shared_from_this()](error_code error, size_t) {
                              if (!error) return self->take_request();
                              self->refuse_malformed(error);
                            });
  }

 private:
  void take_request() {
    const Request& request = parser_->get();
    if (parser_->chunked() || parser_->content_length().value_or(0) > 0) {
      return answer(refusal(http::status::bad_request, "the request must not have a body"), false);
    }
    answer(answer_to(request, loop_.options_, loop_.pages_), request.keep_alive());
  }

  void refuse_malformed(error_code error) {
    const bool is_malformed =
        error.category() == http::make_error_code(http::error::end_of_stream).category();
    if (!is_malformed || error == http::error::end_of_stream) return;  // the client is gone
    answer(refusal(http::status::bad_request, "the request is malformed"), false);
  }

  void answer(Answer answer, bool keep) {
    answer_ = std::move(answer);
    answer_.keep_alive(keep);
    stream_.expires_after(kPatience);
    http::async_write(stream_, answer_,
                      [self = this->shared_from_this(), keep](error_code error, size_t) {
                        if (error) return;
                        if (keep) return self->next_request();
                        error_code ignored;
                        self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
                        self->drain();
                      });
  }

  // Closing a connection before all bytes were read would cost the client its answer.
  void drain() {
    stream_.async_read_some(asio::buffer(drained_),
                            [self = this->shared_from_this()](error_code error, size_t) {
                              if (!error) self->drain();
                            });
  }

  Loop& loop_;
  std::list<Connection*>::iterator own_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{base::kServedHeadBytesMax + 4096};
  std::optional<http::request_parser<http::empty_body>> parser_;
  Answer answer_;
  std::array<char, 4096> drained_{};
};

void PageServer::Loop::accept() {
  acceptor_.async_accept([this](error_code error, tcp::socket socket) {
    if (error) {  // no descriptors are left; some may be closed meanwhile
      pause_.expires_after(kPause);
      return pause_.async_wait([this](error_code) { accept(); });
    }
    // Idle connections must not keep others away.
    if (connections_.size() >= base::kPageConnectionsMax) connections_.front()->close();
    std::make_shared<Connection>(*this, std::move(socket))->next_request();
    accept();
  });
}

PageServer::PageServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
PageServer::~PageServer() = default;

Result<std::unique_ptr<PageServer>> PageServer::start(const PageServerOptions& options,
                                                      Pages pages) {
  auto loop = std::make_unique<Loop>(options, std::move(pages));
  RETURN_IF_ERROR(loop->open());
  return std::unique_ptr<PageServer>(new PageServer(std::move(loop)));
}

uint16_t PageServer::port() const { return loop_->port(); }

}  // namespace forebay::io::serve
