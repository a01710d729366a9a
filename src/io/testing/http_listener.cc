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
    if (connection < 0) continue;
    serve(connection);
    ::close(connection);
  }
}

void HttpListener::serve(int connection) {
  std::string text;
  size_t body_bytes = 0;
  size_t head_end = std::string::npos;
  HeardRequest request;
  while (head_end == std::string::npos || text.size() < head_end + kHeadEnd.size() + body_bytes) {
    char buffer[4096];
    if (!wait_readable(connection, 10'000)) return;
    const ssize_t got = ::recv(connection, buffer, sizeof buffer, 0);
    if (got <= 0) return;
    text.append(buffer, static_cast<size_t>(got));
    constexpr char kTlsHandshake = 0x16;
    if (text.front() == kTlsHandshake) return;
    if (head_end != std::string::npos) continue;
    head_end = text.find(kHeadEnd);
    if (head_end == std::string::npos) continue;
    request = parse_head(text.substr(0, head_end + kHeadEnd.size()));
    const auto length = request.headers.find("content-length");
    if (length != request.headers.end()) body_bytes = std::stoul(length->second);
  }
  request.body = text.substr(head_end + kHeadEnd.size());
  {
    base::MutexLock lock(mutex_);
    heard_.push_back(request);
  }
  const Reply reply = answer_(request);
  if (reply.delay_ms > 0) wait_readable(-1, reply.delay_ms);
  const std::string length =
      reply.says_length
          ? fmt::format("Content-Length: {}\r\n", reply.body.size() + (reply.cut ? 1 : 0))
          : std::string();
  const std::string out = fmt::format("HTTP/1.1 {} X\r\n{}Connection: close\r\n{}\r\n{}",
                                      reply.status, length, reply.headers, reply.body);
  for (size_t sent = 0; sent < out.size();) {
    const ssize_t put = ::send(connection, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
    if (put <= 0) return;
    sent += static_cast<size_t>(put);
  }
}

}  // namespace forebay::io
