#include "io/testing/http_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <sstream>

#include "base/status.h"

namespace forebay::io {
namespace {

constexpr std::string_view kHeadEnd = "\r\n\r\n";

HeardRequest parse_head(const std::string& head) {
  HeardRequest request;
  std::istringstream lines(head);
  std::string line;
  lines >> request.method >> request.target;
  std::getline(lines, line);
  while (std::getline(lines, line) && line != "\r") {
    const size_t colon = line.find(": ");
    std::string name = line.substr(0, colon);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (colon != std::string::npos) {
      request.headers[name] = line.substr(colon + 2, line.size() - colon - 3);
    }
  }
  return request;
}

// Whether the other side took everything.
bool send_all(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

}  // namespace

HttpListener::HttpListener(std::function<Reply(const HeardRequest&)> answer)
    : answer_(std::move(answer)) {
  listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ended_ = ::eventfd(0, EFD_CLOEXEC);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  FOREBAY_CHECK(::bind(listening_, generic, length) == 0 && ::listen(listening_, 64) == 0);
  FOREBAY_CHECK(::getsockname(listening_, generic, &length) == 0);
  url_ = fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port));
  thread_ = std::thread([this] { run(); });
}

HttpListener::~HttpListener() {
  const uint64_t one = 1;
  FOREBAY_CHECK(::write(ended_, &one, sizeof one) == sizeof one);
  thread_.join();
  ::close(listening_);
  ::close(ended_);
}

std::vector<HeardRequest> HttpListener::heard() const {
  base::MutexLock lock(mutex_);
  return heard_;
}

// False when the listener is to end, and after the time.
bool HttpListener::wait_readable(int descriptor, int timeout_ms) const {
  pollfd wanted[2] = {{ended_, POLLIN, 0}, {descriptor, POLLIN, 0}};
  return ::poll(wanted, descriptor < 0 ? 1 : 2, timeout_ms) > 0 && wanted[0].revents == 0;
}

void HttpListener::run() {
  while (wait_readable(listening_, -1)) {
    const int connection = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection >= 0) serve(connection);
  }
  for (std::thread& thread : delayed_) thread.join();
}

void HttpListener::serve(int connection) {
  const std::optional<HeardRequest> request = take_request(connection);
  if (!request) {
    ::close(connection);
    return;
  }
  {
    base::MutexLock lock(mutex_);
    heard_.push_back(*request);
  }
  Reply reply = answer_(*request);
  if (reply.delay_ms == 0) return answer(connection, reply);
  delayed_.emplace_back(
      [this, connection, reply = std::move(reply)] { answer(connection, reply); });
}

std::optional<HeardRequest> HttpListener::take_request(int connection) const {
  std::string text;
  size_t body_bytes = 0;
  size_t head_end = std::string::npos;
  HeardRequest request;
  while (head_end == std::string::npos || text.size() < head_end + kHeadEnd.size() + body_bytes) {
    char buffer[4096];
    if (!wait_readable(connection, 10'000)) return std::nullopt;
    const ssize_t got = ::recv(connection, buffer, sizeof buffer, 0);
    if (got <= 0) return std::nullopt;
    text.append(buffer, static_cast<size_t>(got));
    constexpr char kTlsHandshake = 0x16;
    if (text.front() == kTlsHandshake) return std::nullopt;
    if (head_end != std::string::npos) continue;
    head_end = text.find(kHeadEnd);
    if (head_end == std::string::npos) continue;
    request = parse_head(text.substr(0, head_end + kHeadEnd.size()));
    const auto length = request.headers.find("content-length");
    if (length != request.headers.end()) body_bytes = std::stoul(length->second);
  }
  request.body = text.substr(head_end + kHeadEnd.size());
  return request;
}

void HttpListener::answer(int connection, const Reply& reply) const {
  const std::string length =
      reply.says_length
          ? fmt::format("Content-Length: {}\r\n", reply.body.size() + (reply.cut ? 1 : 0))
          : std::string();
  const std::string head = fmt::format("HTTP/1.1 {} X\r\n{}Connection: close\r\n{}\r\n",
                                       reply.status, length, reply.headers);
  const size_t early = reply.before_delay == 0 ? 0 : head.size() + reply.before_delay;
  const std::string out = head + reply.body;
  bool open = send_all(connection, std::string_view(out).substr(0, early));
  if (reply.delay_ms > 0) wait_readable(-1, reply.delay_ms);
  open = open && send_all(connection, std::string_view(out).substr(early));
  ::close(connection);
}

}  // namespace forebay::io
