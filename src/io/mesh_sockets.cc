#include "io/mesh_sockets.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include "io/children.h"
#include "io/machine.h"

namespace forebay::io {

using base::Code;
using base::fail;

namespace {

constexpr int64_t kMs = 1'000'000;
// A machine that is switched off, or whose cable is cut, says nothing. After this time without an
// answer from its system, it counts as gone. TCP_USER_TIMEOUT must not be set: it also ends the
// connection to a process that is alive but comes late to read.
constexpr int kSilentSeconds = 120;
constexpr int kProbeSeconds = 15;
// The same while sent bytes are unanswered. The system asks a peer that does not read at most every
// two minutes whether it has room.
constexpr uint32_t kUnansweredMs = 300'000;

void set_option(int socket, int level, int name, int value) {
  static_cast<void>(::setsockopt(socket, level, name, &value, sizeof value));
}

struct Endpoint {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

// The endpoint of a host's name or address; none if the host is unknown.
std::optional<Endpoint> endpoint_of(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  Endpoint out;
  out.bytes = found->ai_addrlen;
  std::memcpy(&out.storage, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return out;
}

// The number of an IP address; empty for other addresses and for those that hold only on one link.
std::string number_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> number{};
  const void* bytes = nullptr;
  if (address->sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else if (address->sa_family == AF_INET6) {
    const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&six)) bytes = &six;
  }
  if (bytes == nullptr) return {};
  const char* const text =
      ::inet_ntop(address->sa_family, bytes, number.data(), static_cast<socklen_t>(number.size()));
  return text == nullptr ? std::string() : std::string(text);
}

}  // namespace

std::string address_toward(const std::string& host) {
  const auto to = endpoint_of(host, 1);
  if (!to) return {};
  const Descriptor probe(::socket(to->storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  Endpoint own;
  own.bytes = sizeof own.storage;
  if (probe.get() < 0 || ::connect(probe.get(), to->get(), to->bytes) != 0 ||
      ::getsockname(probe.get(), own.get(), &own.bytes) != 0) {
    return {};
  }
  return number_of(own.get());
}

std::vector<Interface> interfaces() {
  std::vector<Interface> out;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return out;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    std::string number = number_of(one->ifa_addr);
    if (number.empty()) continue;
    out.push_back({.name = one->ifa_name,
                   .address = std::move(number),
                   .is_loopback = (one->ifa_flags & IFF_LOOPBACK) != 0});
  }
  ::freeifaddrs(first);
  return out;
}

std::vector<std::string> best_first(const std::string& host, const std::string& toward,
                                    const std::vector<Interface>& all) {
  std::vector<std::string> out;
  std::vector<std::string> last;
  const auto is_loopback = [](const std::string& address) {
    return address.starts_with("127.") || address == "::1";
  };
  // A machine's own name may stand for a loopback address there (127.0.1.1), but not on the other
  // machines. If the host is a loopback address itself, all processes are on this machine.
  const bool is_own_name = is_loopback(toward) && !is_loopback(host) && host != "localhost";
  if (!toward.empty()) (is_own_name ? last : out).push_back(toward);
  for (const Interface& one : all) {
    if (!one.is_loopback && one.address != toward) out.push_back(one.address);
  }
  out.insert(out.end(), last.begin(), last.end());
  if (out.empty()) out.emplace_back("127.0.0.1");
  return out;
}

Result<Descriptor> listening_socket() {
  for (const int family : {AF_INET6, AF_INET}) {
    Descriptor out(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (out.get() < 0) continue;
    Endpoint any;
    any.storage.ss_family = static_cast<sa_family_t>(family);
    any.bytes = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (family == AF_INET6) set_option(out.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (::bind(out.get(), any.get(), any.bytes) == 0 && ::listen(out.get(), SOMAXCONN) == 0) {
      return out;
    }
  }
  return fail(Code::kUnavailable, "cannot listen on any address of this machine: {}",
              reason(errno));
}

uint16_t port_of(int socket) {
  Endpoint own;
  own.bytes = sizeof own.storage;
  ::getsockname(socket, own.get(), &own.bytes);
  // The port stands at the same place for both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&own.storage)->sin_port);
}

tl::expected<Descriptor, int> connected_to(const std::string& host, uint16_t port, int stopped,
                                           int64_t deadline_ns) {
  const auto to = endpoint_of(host, port);
  if (!to) return tl::unexpected(EADDRNOTAVAIL);
  Descriptor out(::socket(to->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (out.get() < 0) return tl::unexpected(errno);
  if (::connect(out.get(), to->get(), to->bytes) == 0) return out;
  if (errno != EINPROGRESS) return tl::unexpected(errno);
  std::array<pollfd, 2> waits = {{{.fd = out.get(), .events = POLLOUT, .revents = 0},
                                  {.fd = stopped, .events = POLLIN, .revents = 0}}};
  while (waits[0].revents == 0) {
    if (waits[1].revents != 0) return tl::unexpected(ECANCELED);
    if (monotonic_ns() >= deadline_ns) return tl::unexpected(ETIMEDOUT);
    ::poll(waits.data(), waits.size(), poll_ms(deadline_ns));
  }
  int error = 0;
  socklen_t bytes = sizeof error;
  ::getsockopt(out.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  if (error != 0) return tl::unexpected(error);
  return out;
}

std::string reason(int error) { return std::generic_category().message(error); }

int poll_ms(int64_t deadline_ns) {
  const int64_t left_ns = std::max<int64_t>(deadline_ns - monotonic_ns(), 0);
  return static_cast<int>(std::min<int64_t>(left_ns / kMs + (left_ns % kMs != 0 ? 1 : 0), 60'000));
}

void prepare(int socket) {
  close_in_children(socket);
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kProbeSeconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kSilentSeconds / kProbeSeconds);
}

bool is_silent(int socket) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 &&
         info.tcpi_last_ack_recv > kUnansweredMs;
}

}  // namespace forebay::io
