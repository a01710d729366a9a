#include "io/datagrams.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>

#include "base/limits.h"
#include "io/children.h"
#include "io/descriptor.h"
#include "io/machine.h"
#include "io/secret_file.h"

namespace forebay::io {

namespace asio = boost::asio;
using asio::ip::udp;
using base::Code;
using base::fail;
using base::Status;
using boost::system::error_code;

namespace {

using Tag = std::array<uint8_t, 32>;
// Part of what is tagged, because the same secret has other uses (job_certificate.h).
constexpr std::string_view kPurpose = "forebay datagrams 1";
constexpr int64_t kMs = 1'000'000;
constexpr int kReceivedBytes = 256 << 10;  // the socket's receive buffer

}  // namespace

class Datagrams::Socket {
 public:
  explicit Socket(const Secret& secret) : secret_(secret), wake_(::eventfd(0, EFD_CLOEXEC)) {}
  ~Socket() { keep_in_children(socket_.native_handle()); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  Status open(const std::string& address, uint16_t port) try {
    const auto place = asio::ip::make_address(address);
    if (wake_.get() < 0) return fail(Code::kIo, "cannot make an eventfd");
    const udp::endpoint endpoint(place, port);
    socket_.open(endpoint.protocol());
    close_in_children(socket_.native_handle());
    socket_.bind(endpoint);
    socket_.non_blocking(true);
    socket_.set_option(udp::socket::receive_buffer_size(kReceivedBytes));
    return {};
  } catch (const boost::system::system_error& error) {
    return fail(Code::kUnavailable, "cannot receive datagrams at {} port {}: {}", address, port,
                error.code().message());
  }

  uint16_t port() const {
    error_code ignored;
    return socket_.local_endpoint(ignored).port();
  }

  void send(const std::string& address, uint16_t port, Bytes bytes) {
    error_code error;
    const auto place = asio::ip::make_address(address, error);
    if (error) return;
    const Tag tag = tag_of(bytes);
    const std::array<asio::const_buffer, 2> parts = {asio::buffer(tag),
                                                     asio::buffer(bytes.data(), bytes.size())};
    socket_.send_to(parts, udp::endpoint(place, port), 0, error);
  }

  std::optional<base::ByteVector> receive(int64_t deadline_ns) {
    while (true) {
      const int64_t left_ns = std::max<int64_t>(deadline_ns - monotonic_ns(), 0);
      std::array<::pollfd, 2> waits = {
          {{.fd = socket_.native_handle(), .events = POLLIN, .revents = 0},
           {.fd = wake_.get(), .events = POLLIN, .revents = 0}}};
      const auto wait_ms = static_cast<int>(std::min<int64_t>((left_ns + kMs - 1) / kMs, 1000));
      ::poll(waits.data(), waits.size(), wait_ms);
      if (waits[1].revents != 0) {
        uint64_t count = 0;
        static_cast<void>(::read(wake_.get(), &count, sizeof count) == 0);
        return std::nullopt;
      }
      if (auto bytes = take()) return bytes;
      if (monotonic_ns() >= deadline_ns) return std::nullopt;
    }
  }

  void wake() {
    const uint64_t one = 1;
    static_cast<void>(::write(wake_.get(), &one, sizeof one) == 0);
  }

 private:
  std::optional<base::ByteVector> take() {
    std::array<uint8_t, sizeof(Tag) + base::kMemberMessageBytesMax + 1> buffer;
    udp::endpoint from;
    error_code error;
    const size_t length = socket_.receive_from(asio::buffer(buffer), from, 0, error);
    if (error || length <= sizeof(Tag) || length == buffer.size()) return std::nullopt;
    const Bytes bytes = Bytes(buffer).first(length).subspan(sizeof(Tag));
    const Tag tag = tag_of(bytes);
    if (CRYPTO_memcmp(tag.data(), buffer.data(), tag.size()) != 0) return std::nullopt;
    return base::ByteVector(bytes.begin(), bytes.end());
  }

  Tag tag_of(Bytes bytes) const {
    base::ByteVector tagged(kPurpose.begin(), kPurpose.end());
    tagged.insert(tagged.end(), bytes.begin(), bytes.end());
    Tag tag{};
    unsigned int size = tag.size();
    const std::string_view key = secret_.reveal();
    FOREBAY_CHECK(::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), tagged.data(),
                         tagged.size(), tag.data(), &size) != nullptr);
    return tag;
  }

  const Secret secret_;
  const Descriptor wake_;
  asio::io_context context_;
  udp::socket socket_{context_};
};

std::string address_number(const std::string& text) {
  std::array<uint8_t, sizeof(in6_addr)> bytes{};
  std::array<char, INET6_ADDRSTRLEN> number{};
  for (const int family : {AF_INET, AF_INET6}) {
    if (::inet_pton(family, text.c_str(), bytes.data()) != 1) continue;
    return ::inet_ntop(family, bytes.data(), number.data(), number.size());
  }
  return {};
}

Datagrams::Datagrams(std::unique_ptr<Socket> socket) : socket_(std::move(socket)) {}
Datagrams::~Datagrams() = default;

Result<std::unique_ptr<Datagrams>> Datagrams::open(const std::string& address, uint16_t port,
                                                   const Secret& secret) {
  if (secret.empty()) {
    return fail(Code::kInvalid, "datagrams at {} need the job's secret", address);
  }
  ASSIGN_OR_RETURN(const Secret key, stretched(secret));
  auto socket = std::make_unique<Socket>(key);
  RETURN_IF_ERROR(socket->open(address, port));
  return std::unique_ptr<Datagrams>(new Datagrams(std::move(socket)));
}

uint16_t Datagrams::port() const { return socket_->port(); }
void Datagrams::send(const std::string& address, uint16_t port, Bytes bytes) {
  socket_->send(address, port, bytes);
}
std::optional<base::ByteVector> Datagrams::receive(int64_t deadline_ns) {
  return socket_->receive(deadline_ns);
}
void Datagrams::wake() { socket_->wake(); }

}  // namespace forebay::io
