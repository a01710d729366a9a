#include "io/mesh.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/limits.h"
#include "io/children.h"
#include "io/machine.h"

namespace forebay::io {

using base::Code;
using base::fail;

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kLookNs = kNsPerSecond;        // from one call of Look to the next
constexpr int64_t kDialNs = 5 * kNsPerSecond;    // for one address
constexpr int64_t kAgainNs = kNsPerSecond / 2;   // before all addresses of a peer are tried again
constexpr int64_t kHelloNs = 10 * kNsPerSecond;  // for the first bytes of a connection
// A machine that is switched off, or whose cable is cut, says nothing. After this time without an
// answer from its system, it counts as gone.
constexpr int kSilentSeconds = 120;
constexpr int kProbeSeconds = 15;
constexpr std::string_view kMagic = "FBMESH1\n";

// The first bytes of a connection, in both directions.
struct Hello {
  std::array<char, 8> magic{};
  std::array<char, Mesh::kTokenBytes> token{};
  uint32_t rank = 0;
  uint32_t channel = 0;
};
static_assert(sizeof(Hello) == 48);

MutableBytes bytes_of(Hello* hello) { return {reinterpret_cast<uint8_t*>(hello), sizeof(Hello)}; }

Hello hello_of(const Mesh::Options& options, Mesh::Channel channel) {
  Hello hello{.rank = options.rank, .channel = static_cast<uint32_t>(channel)};
  std::ranges::copy(kMagic, hello.magic.begin());
  std::ranges::copy(options.token, hello.token.begin());
  return hello;
}

bool is_of_job(const Hello& hello, const Mesh::Options& options) {
  return std::string_view(hello.magic.data(), hello.magic.size()) == kMagic &&
         CRYPTO_memcmp(hello.token.data(), options.token.data(), hello.token.size()) == 0;
}

std::string reason(int error) { return std::generic_category().message(error); }

// The time from now to the deadline for ::poll(), which rounds nothing away.
int poll_ms(int64_t deadline_ns) {
  const int64_t left_ns = std::max<int64_t>(deadline_ns - monotonic_ns(), 0);
  return static_cast<int>(std::min<int64_t>(left_ns / kMs + (left_ns % kMs != 0 ? 1 : 0), 60'000));
}

void set_option(int socket, int level, int name, int value) {
  static_cast<void>(::setsockopt(socket, level, name, &value, sizeof value));
}

void prepare(int socket) {
  close_in_children(socket);
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kProbeSeconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kSilentSeconds / kProbeSeconds);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kSilentSeconds * 1000);
}

struct Endpoint {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

// The endpoint of a host's name or address.
Result<Endpoint> endpoint_of(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return fail(Code::kUnavailable, "cannot find the address of the host {}: {}", host,
                ::gai_strerror(error));
  }
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

// The address from which this machine would send to a host; empty if it cannot.
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

struct Interface {
  std::string name;
  std::string address;
  bool is_loopback = false;
};

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

// A socket that listens on a free port of all addresses.
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

// Connects to an address. Errors: the system's number of the error.
tl::expected<Descriptor, int> connected_to(const Endpoint& to, int stopped, int64_t deadline_ns) {
  Descriptor out(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (out.get() < 0) return tl::unexpected(errno);
  if (::connect(out.get(), to.get(), to.bytes) == 0) return out;
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

std::string listed(const std::vector<uint32_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

tl::unexpected<Status> gone(uint32_t peer, int error) {
  return fail(Code::kUnavailable, "the connection to rank {} ended: {}", peer,
              error == 0 ? "its process has ended or was killed" : reason(error));
}

// Whether a failed call may be made again when the socket is ready.
bool is_for_later() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// Sends what the socket takes now. Returns whether all is sent.
Result<bool> send_some(int socket, Mesh::Sending* one) {
  while (!one->rest.empty() || !one->then.empty()) {
    std::array<iovec, 2> parts = {
        {{.iov_base = const_cast<uint8_t*>(one->rest.data()), .iov_len = one->rest.size()},
         {.iov_base = const_cast<uint8_t*>(one->then.data()), .iov_len = one->then.size()}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && is_for_later()) return false;
    if (sent < 0) return gone(one->peer, errno);
    const auto of_rest = std::min(static_cast<size_t>(sent), one->rest.size());
    one->rest = one->rest.subspan(of_rest);
    one->then = one->then.subspan(static_cast<size_t>(sent) - of_rest);
  }
  return true;
}

// Receives what has arrived. Returns whether the transfer with this peer is complete.
Result<bool> receive_some(int socket, Mesh::Receiving* one) {
  while (true) {
    if (one->rest.empty()) {
      if (!one->more) return true;
      ASSIGN_OR_RETURN(one->rest, one->more());
      if (one->rest.empty()) return true;
    }
    const ssize_t got = ::recv(socket, one->rest.data(), one->rest.size(), MSG_DONTWAIT);
    if (got < 0 && is_for_later()) return false;
    if (got <= 0) return gone(one->peer, got < 0 ? errno : 0);
    one->rest = one->rest.subspan(static_cast<size_t>(got));
  }
}

}  // namespace

Mesh::Mesh(Options options, Descriptor listening, Descriptor stopped, uint16_t port)
    : options_(std::move(options)),
      listening_(std::move(listening)),
      stopped_(std::move(stopped)),
      port_(port) {
  close_in_children(listening_.get());
  for (uint32_t peer = 0; peer < options_.processes; ++peer) {
    sockets_.push_back({Descriptor(-1), Descriptor(-1), Descriptor(-1)});
  }
}

Result<std::unique_ptr<Mesh>> Mesh::listen(Options options) {
  FOREBAY_CHECK(options.rank < options.processes && options.token.size() == kTokenBytes);
  ASSIGN_OR_RETURN(Descriptor listening, listening_socket());
  Descriptor stopped(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (stopped.get() < 0) return fail(Code::kUnavailable, "cannot make an eventfd");
  const uint16_t port = port_of(listening.get());
  return std::unique_ptr<Mesh>(
      new Mesh(std::move(options), std::move(listening), std::move(stopped), port));
}

Mesh::~Mesh() {
  keep_in_children(listening_.get());
  for (const auto& peer : sockets_) {
    for (const Descriptor& socket : peer) {
      if (socket.get() >= 0) keep_in_children(socket.get());
    }
  }
}

Result<MeshPlace> Mesh::place(const std::string& toward, const std::string& interface) const {
  MeshPlace out;
  out.port = port_;
  const std::string first = interface.empty() ? address_toward(toward) : std::string();
  if (!first.empty()) out.addresses.push_back(first);
  for (const Interface& one : interfaces()) {
    const bool is_wanted = interface.empty() ? !one.is_loopback : one.name == interface;
    if (is_wanted && one.address != first) out.addresses.push_back(one.address);
  }
  if (out.addresses.empty() && interface.empty()) out.addresses.emplace_back("127.0.0.1");
  if (!out.addresses.empty()) return out;
  return fail(Code::kInvalid, "there is no network interface {} with an IP address on this machine",
              interface);
}

Status Mesh::connect(const std::vector<MeshPlace>& places, int64_t deadline_ns) {
  FOREBAY_CHECK(places.size() == options_.processes);
  for (uint32_t peer = 0; peer < options_.rank; ++peer) {
    RETURN_IF_ERROR(dial(peer, places[peer], deadline_ns));
  }
  return take_hellos(deadline_ns);
}

// Connects to a process that may not have begun to wait for connections: its system takes them.
Status Mesh::dial(uint32_t peer, const MeshPlace& place, int64_t deadline_ns) {
  for (size_t at = 0; at < kChannels; ++at) {
    std::string tried;
    while (sockets_[peer][at].get() < 0) {
      tried.clear();
      for (const std::string& address : place.addresses) {
        ASSIGN_OR_RETURN(const Endpoint to, endpoint_of(address, place.port));
        const int64_t until_ns = std::min(deadline_ns, monotonic_ns() + kDialNs);
        auto made = connected_to(to, stopped_.get(), until_ns);
        if (made) {
          sockets_[peer][at] = std::move(*made);
          break;
        }
        if (made.error() == ECANCELED) return fail(Code::kCancelled, "stopped");
        tried += fmt::format("{}{} port {}: {}", tried.empty() ? "" : "; ", address, place.port,
                             reason(made.error()));
      }
      if (sockets_[peer][at].get() >= 0) break;
      pollfd stopped{.fd = stopped_.get(), .events = POLLIN, .revents = 0};
      ::poll(&stopped, 1, poll_ms(std::min(deadline_ns, monotonic_ns() + kAgainNs)));
      if (stopped.revents != 0) return fail(Code::kCancelled, "stopped");
      if (monotonic_ns() >= deadline_ns) {
        return fail(Code::kUnavailable, "rank {} cannot be reached ({})", peer, tried);
      }
    }
    prepare(sockets_[peer][at].get());
    Hello own = hello_of(options_, static_cast<Channel>(at));
    RETURN_IF_ERROR(transfer(static_cast<Channel>(at), {{.peer = peer, .rest = bytes_of(&own)}}, {},
                             deadline_ns));
  }
  return {};
}

namespace {

// A connection whose first bytes are still to come.
struct Stranger {
  explicit Stranger(Descriptor made) : socket(std::move(made)) {}
  Descriptor socket;
  Hello hello;
  MutableBytes rest = bytes_of(&hello);
  int64_t deadline_ns = monotonic_ns() + kHelloNs;
};

}  // namespace

// Takes the connections of processes with higher ranks, and then the answers of those with lower
// ranks. Connections of others are closed.
Status Mesh::take_hellos(int64_t deadline_ns) {
  std::vector<std::unique_ptr<Stranger>> strangers;
  size_t missing = (options_.processes - options_.rank - 1) * kChannels;
  while (missing > 0) {
    std::vector<pollfd> waits = {{.fd = stopped_.get(), .events = POLLIN, .revents = 0},
                                 {.fd = listening_.get(), .events = POLLIN, .revents = 0}};
    for (const auto& one : strangers) {
      waits.push_back({.fd = one->socket.get(), .events = POLLIN, .revents = 0});
    }
    const int64_t now_ns = monotonic_ns();
    ::poll(waits.data(), waits.size(), poll_ms(std::min(deadline_ns, now_ns + kNsPerSecond)));
    if (waits[0].revents != 0) return fail(Code::kCancelled, "stopped");
    for (auto& one : strangers) {
      Receiving in{.rest = one->rest};
      const auto is_complete = receive_some(one->socket.get(), &in);
      one->rest = in.rest;
      const Hello& hello = one->hello;
      const bool is_welcome = is_complete && *is_complete && is_of_job(hello, options_) &&
                              hello.rank > options_.rank && hello.rank < options_.processes &&
                              hello.channel < kChannels &&
                              sockets_[hello.rank][hello.channel].get() < 0;
      if (is_welcome) {
        prepare(one->socket.get());
        sockets_[hello.rank][hello.channel] = std::move(one->socket);
        --missing;
      }
      const bool is_over = !is_complete || *is_complete || monotonic_ns() > one->deadline_ns;
      if (is_over) one.reset();
    }
    std::erase(strangers, nullptr);
    if (strangers.size() < base::kStrangersMax) {
      Descriptor made(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (made.get() >= 0) {
        strangers.push_back(std::make_unique<Stranger>(std::move(made)));
      }
    }
    if (missing > 0 && monotonic_ns() >= deadline_ns) {
      std::vector<uint32_t> late;
      for (uint32_t peer = options_.rank + 1; peer < options_.processes; ++peer) {
        const auto& own = sockets_[peer];
        if (std::ranges::any_of(own, [](const auto& socket) { return socket.get() < 0; })) {
          late.push_back(peer);
        }
      }
      return fail(Code::kUnavailable, "{} did not connect to rank {} in time", listed(late),
                  options_.rank);
    }
  }
  for (size_t at = 0; at < kChannels; ++at) {
    const auto channel = static_cast<Channel>(at);
    Hello own = hello_of(options_, channel);
    std::vector<Hello> answers(options_.rank);
    std::vector<Sending> sending;
    std::vector<Receiving> receiving;
    for (uint32_t peer = options_.rank + 1; peer < options_.processes; ++peer) {
      sending.push_back({.peer = peer, .rest = bytes_of(&own)});
    }
    for (uint32_t peer = 0; peer < options_.rank; ++peer) {
      receiving.push_back({.peer = peer, .rest = bytes_of(&answers[peer])});
    }
    RETURN_IF_ERROR(transfer(channel, std::move(sending), std::move(receiving), deadline_ns));
    for (uint32_t peer = 0; peer < options_.rank; ++peer) {
      if (!is_of_job(answers[peer], options_) || answers[peer].rank != peer) {
        return fail(Code::kUnavailable, "something else than rank {} of this job listens there",
                    peer);
      }
    }
  }
  return {};
}

Status Mesh::transfer(Channel channel, std::vector<Sending> sending,
                      std::vector<Receiving> receiving, int64_t deadline_ns, const Look& look) {
  std::vector<pollfd> waits;
  const int64_t begin_ns = monotonic_ns();
  int64_t look_ns = look ? begin_ns + kLookNs : INT64_MAX;
  while (true) {
    if (is_stopped_) return fail(Code::kCancelled, "stopped");
    waits.assign(1, {.fd = stopped_.get(), .events = POLLIN, .revents = 0});
    for (auto one = sending.begin(); one != sending.end();) {
      ASSIGN_OR_RETURN(const bool is_done, send_some(socket(channel, one->peer), &*one));
      if (!is_done) {
        waits.push_back({.fd = socket(channel, one->peer), .events = POLLOUT, .revents = 0});
      }
      one = is_done ? sending.erase(one) : one + 1;
    }
    for (auto one = receiving.begin(); one != receiving.end();) {
      ASSIGN_OR_RETURN(const bool is_done, receive_some(socket(channel, one->peer), &*one));
      if (!is_done) {
        waits.push_back({.fd = socket(channel, one->peer), .events = POLLIN, .revents = 0});
      }
      one = is_done ? receiving.erase(one) : one + 1;
    }
    if (waits.size() == 1) return {};
    ::poll(waits.data(), waits.size(), poll_ms(std::min(deadline_ns, look_ns)));
    const int64_t now_ns = monotonic_ns();
    if (now_ns >= look_ns) {
      look_ns = now_ns + kLookNs;
      RETURN_IF_ERROR(look(static_cast<double>(now_ns - begin_ns) / kNsPerSecond));
    }
    if (now_ns < deadline_ns) continue;
    std::vector<uint32_t> late;
    for (const Receiving& one : receiving) late.push_back(one.peer);
    for (const Sending& one : sending) late.push_back(one.peer);
    std::ranges::sort(late);
    const auto [first, last] = std::ranges::unique(late);
    late.erase(first, last);
    return fail(Code::kTimedOut, "{} did not answer in time", listed(late));
  }
}

Result<uint32_t> Mesh::wait_for_any(Channel channel, const std::vector<uint32_t>& peers,
                                    int64_t deadline_ns) {
  std::vector<pollfd> waits;
  while (true) {
    waits.assign(1, {.fd = stopped_.get(), .events = POLLIN, .revents = 0});
    for (const uint32_t peer : peers) {
      waits.push_back({.fd = socket(channel, peer), .events = POLLIN, .revents = 0});
    }
    ::poll(waits.data(), waits.size(), poll_ms(deadline_ns));
    if (waits[0].revents != 0) return fail(Code::kCancelled, "stopped");
    for (size_t i = 0; i < peers.size(); ++i) {
      if (waits[i + 1].revents != 0) return peers[i];
    }
    if (monotonic_ns() >= deadline_ns) {
      return fail(Code::kTimedOut, "{} did not answer in time", listed(peers));
    }
  }
}

void Mesh::stop() {
  is_stopped_ = true;
  const uint64_t one = 1;
  static_cast<void>(::write(stopped_.get(), &one, sizeof one) == 0);
}

}  // namespace forebay::io
