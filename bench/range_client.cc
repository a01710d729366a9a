// deps: forebay_base OpenSSL::SSL
// Asks a web server for random ranges of a file as fast as it answers, over connections that stay,
// each with one request at a time:
//   bench_range_client ADDRESS PORT TARGET FILE BYTES RANGES CONNECTIONS SECONDS [PEM]
// Each request has RANGES ranges of BYTES each. FILE has what the server serves: each answer's code
// and length are checked, and the bytes of every kCheckedEach-th answer. What is not checked is
// left in the kernel where that is possible. With PEM, a certificate and its key, it speaks TLS 1.3
// and trusts this certificate alone. The last line is one JSON object.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/random.h"
#include "lib/clock.h"
#include "lib/files.h"

namespace {

using namespace forebay;
using bench::stop;

constexpr uint64_t kCheckedEach = 16;
constexpr size_t kRequests = 4096;  // that are made before, and asked again and again
constexpr size_t kHeadBytes = 4096;

struct Work {
  sockaddr_in address{};
  std::string target;
  std::string_view file;  // its content
  uint64_t bytes = 0;     // of a range
  uint64_t ranges = 0;    // of a request
  SSL_CTX* tls = nullptr;
};

struct Request {
  std::string text;
  std::vector<uint64_t> offsets;
};

struct Counts {
  uint64_t requests = 0;
  uint64_t checked = 0;
};

std::string_view map_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info{};
  if (fd < 0 || ::fstat(fd, &info) != 0) stop("cannot read " + path);
  const auto size = static_cast<size_t>(info.st_size);
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) stop("cannot map " + path);
  return {static_cast<const char*>(memory), size};
}

// The ranges of a request are as far apart as they are long.
std::vector<Request> make_requests(const Work& work) {
  std::vector<Request> requests(kRequests);
  base::Random random(1, base::Purpose::kTest);
  const uint64_t span = (2 * work.ranges - 1) * work.bytes;
  if (span >= work.file.size()) stop("the ranges are larger than the file");
  for (Request& request : requests) {
    const uint64_t begin = random.next_u64() % (work.file.size() - span);
    std::string header;
    for (uint64_t i = 0; i < work.ranges; ++i) {
      const uint64_t at = begin + 2 * i * work.bytes;
      request.offsets.push_back(at);
      header += fmt::format("{}{}-{}", i == 0 ? "" : ",", at, at + work.bytes - 1);
    }
    request.text = fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\nRange: bytes={}\r\n\r\n",
                               work.target, header);
  }
  return requests;
}

class Connection {
 public:
  Connection(const Work& work, const std::vector<Request>& requests, size_t first)
      : work_(work), requests_(requests), next_(first), fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&work.address), sizeof(work.address)) !=
        0) {
      stop("cannot connect");
    }
    if (work.tls == nullptr) return;
    tls_ = SSL_new(work.tls);
    SSL_set_fd(tls_, fd_);
    if (SSL_connect(tls_) != 1) stop("the TLS handshake failed");
  }
  ~Connection() {
    SSL_free(tls_);
    ::close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int descriptor() const { return fd_; }
  void never_wait() const { ::fcntl(fd_, F_SETFL, O_NONBLOCK); }

  void ask() {
    now_ = &requests_[next_++ % requests_.size()];
    is_checked_ = next_ % kCheckedEach == 0;
    text_.clear();
    left_ = 0;
    const std::string& text = now_->text;
    const auto size = static_cast<int>(text.size());
    const bool is_sent = tls_ != nullptr ? SSL_write(tls_, text.data(), size) == size
                                         : ::send(fd_, text.data(), text.size(), 0) == size;
    if (!is_sent) stop("a request was not taken at once");
  }

  // Takes what has come; asks the next request after a whole answer.
  void take(Counts& counts) {
    while (true) {
      if (left_ == 0 ? !take_head() : !take_body()) return;
      if (left_ > 0) continue;
      if (is_checked_) check();
      ++counts.requests;
      counts.checked += is_checked_ ? 1 : 0;
      ask();
    }
  }

 private:
  // Returns what came, or 0 where there is nothing yet. Without a place the bytes are dropped.
  size_t receive(char* out, size_t size) {
    static std::vector<char> dropped(1u << 20);
    const size_t most = out != nullptr ? size : std::min(size, dropped.size());
    if (tls_ != nullptr) {
      const int got = SSL_read(tls_, out != nullptr ? out : dropped.data(), static_cast<int>(most));
      if (got > 0) return static_cast<size_t>(got);
      if (SSL_get_error(tls_, got) == SSL_ERROR_WANT_READ) return 0;
      stop("the server closed a connection");
    }
    const ssize_t got =
        out != nullptr ? ::recv(fd_, out, size, 0) : ::recv(fd_, dropped.data(), size, MSG_TRUNC);
    if (got > 0) return static_cast<size_t>(got);
    if (got < 0 && errno == EAGAIN) return 0;
    stop("the server closed a connection");
  }

  // True where the head is complete.
  bool take_head() {
    std::array<char, kHeadBytes> piece{};
    const size_t got = receive(piece.data(), piece.size());
    text_.append(piece.data(), got);
    const size_t end = text_.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    if (!text_.starts_with("HTTP/1.1 206")) stop(text_.substr(0, end));
    const size_t at = text_.find("Content-Length: ");
    uint64_t length = 0;
    if (at < end) std::from_chars(text_.data() + at + 16, text_.data() + end, length);
    const uint64_t payload = work_.bytes * work_.ranges;
    if (work_.ranges == 1 ? length != payload : length < payload) stop("a wrong length");
    text_.erase(0, end + 4);
    if (text_.size() > length) stop("more bytes than were asked for");
    left_ = length - text_.size();
    if (is_checked_) text_.reserve(length);
    return true;
  }

  bool take_body() {
    if (!is_checked_) {
      const size_t got = receive(nullptr, left_);
      left_ -= got;
      return got > 0;
    }
    const size_t before = text_.size();
    text_.resize(before + left_);
    const size_t got = receive(text_.data() + before, left_);
    text_.resize(before + got);
    left_ -= got;
    return got > 0;
  }

  void check() const {
    size_t at = 0;
    for (const uint64_t offset : now_->offsets) {
      if (work_.ranges > 1) at = text_.find("\r\n\r\n", at) + 4;
      if (text_.compare(at, work_.bytes, work_.file, offset, work_.bytes) != 0) {
        stop("other bytes than the file's");
      }
      at += work_.bytes;
    }
  }

  const Work& work_;
  const std::vector<Request>& requests_;
  size_t next_;
  const int fd_;
  SSL* tls_ = nullptr;
  const Request* now_ = nullptr;
  bool is_checked_ = false;
  std::string text_;   // the head, or of an answer that is checked the body
  uint64_t left_ = 0;  // of the body; 0 while the head has not come
};

SSL_CTX* tls_of(const char* pem) {
  SSL_CTX* const tls = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION);
  SSL_CTX_set_mode(tls, SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, nullptr);
  if (SSL_CTX_load_verify_file(tls, pem) != 1 ||
      SSL_CTX_use_certificate_file(tls, pem, SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_use_PrivateKey_file(tls, pem, SSL_FILETYPE_PEM) != 1) {
    stop("cannot use the certificate");
  }
  return tls;
}

Counts run(const Work& work, size_t connections, double seconds) {
  const auto requests = make_requests(work);
  const int events = ::epoll_create1(EPOLL_CLOEXEC);
  std::vector<std::unique_ptr<Connection>> open;
  for (size_t i = 0; i < connections; ++i) {
    open.push_back(std::make_unique<Connection>(work, requests, i * kRequests / connections));
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    ::epoll_ctl(events, EPOLL_CTL_ADD, open.back()->descriptor(), &event);
  }
  Counts counts;
  for (const auto& one : open) {
    one->never_wait();
    one->ask();
  }
  std::array<epoll_event, 64> ready{};
  const double end = bench::wall_seconds() + seconds;
  while (bench::wall_seconds() < end) {
    const int count = ::epoll_wait(events, ready.data(), ready.size(), 1000);
    for (int i = 0; i < count; ++i) open[ready[static_cast<size_t>(i)].data.u64]->take(counts);
  }
  ::close(events);
  return counts;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 9) {
    stop(
        "usage: bench_range_client ADDRESS PORT TARGET FILE BYTES RANGES CONNECTIONS SECONDS "
        "[PEM]");
  }
  Work work;
  work.address.sin_family = AF_INET;
  work.address.sin_port = htons(static_cast<uint16_t>(std::atoi(argv[2])));
  if (::inet_pton(AF_INET, argv[1], &work.address.sin_addr) != 1) stop("no address");
  work.target = argv[3];
  work.file = map_file(argv[4]);
  work.bytes = std::strtoull(argv[5], nullptr, 10);
  work.ranges = std::strtoull(argv[6], nullptr, 10);
  if (argc > 9) work.tls = tls_of(argv[9]);
  const double start = bench::wall_seconds();
  const double cpu = bench::seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  const Counts counts = run(work, std::strtoull(argv[7], nullptr, 10), std::atof(argv[8]));
  fmt::print(
      "{{\"requests\": {}, \"checked\": {}, \"bytes\": {}, \"seconds\": {}, \"cpu_seconds\": "
      "{}}}\n",
      counts.requests, counts.checked, counts.requests * work.bytes * work.ranges,
      bench::wall_seconds() - start, bench::seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
}
