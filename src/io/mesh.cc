#include "io/mesh.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/limits.h"
#include "io/children.h"
#include "io/machine.h"
#include "io/mesh_sockets.h"

namespace forebay::io {

using base::Code;
using base::fail;

namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kLookNs = kNsPerSecond;        // from one call of Look to the next
constexpr int64_t kDialNs = 5 * kNsPerSecond;    // for one address
constexpr int64_t kAgainNs = kNsPerSecond / 2;   // before all addresses of a peer are tried again
constexpr int64_t kHelloNs = 10 * kNsPerSecond;  // for the first bytes of a connection
constexpr int64_t kHurriedNs = kNsPerSecond;     // the same while too many connections wait
constexpr int64_t kUnansweredLookNs = 10 * kNsPerSecond;
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

std::string listed(const std::vector<uint32_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

tl::unexpected<Status> gone(uint32_t peer, int error) {
  return fail(Code::kUnavailable, "the connection to rank {} ended: {}", peer,
              error == 0 ? "its process has ended or was killed" : reason(error));
}

// Whether a failed call may be made again when the socket is ready.
bool is_for_later() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

enum class Sent { kAll, kWhatTheSocketTakes, kWhatIsThere };

// Sends what the socket takes now, of the bytes that are there.
Result<Sent> send_some(int socket, Mesh::Sending* one) {
  const std::array<Bytes*, 2> pieces = {&one->rest, &one->then};
  while (true) {
    if (one->rest.empty() && one->then.empty()) {
      if (!one->more) return Sent::kAll;
      const std::optional<Bytes> more = one->more();
      if (!more) return Sent::kWhatIsThere;
      if (more->empty()) return Sent::kAll;
      one->rest = *more;
    }
    std::array<iovec, pieces.size()> parts{};
    for (size_t i = 0; i < pieces.size(); ++i) {
      parts[i] = {.iov_base = const_cast<uint8_t*>(pieces[i]->data()),
                  .iov_len = pieces[i]->size()};
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && is_for_later()) return Sent::kWhatTheSocketTakes;
    if (sent < 0) return gone(one->peer, errno);
    auto left = static_cast<size_t>(sent);
    for (Bytes* const piece : pieces) {
      const size_t count = std::min(left, piece->size());
      *piece = piece->subspan(count);
      left -= count;
    }
  }
}

std::vector<uint32_t> peers_of(const std::vector<Mesh::Sending>& sending,
                               const std::vector<Mesh::Receiving>& receiving) {
  std::set<uint32_t> out;
  for (const auto& one : sending) out.insert(one.peer);
  for (const auto& one : receiving) out.insert(one.peer);
  return {out.begin(), out.end()};
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
  const std::vector<Interface> all = interfaces();
  if (interface.empty()) out.addresses = best_first(toward, address_toward(toward), all);
  for (const Interface& one : all) {
    if (one.name == interface) out.addresses.push_back(one.address);
  }
  if (!out.addresses.empty()) return out;
  return fail(Code::kInvalid, "there is no network interface {} with an IP address on this machine",
              interface);
}

Status Mesh::connect(const std::vector<MeshPlace>& places, int64_t deadline_ns) {
  FOREBAY_CHECK(places.size() == options_.processes);
  for (uint32_t peer = 0; peer < options_.rank; ++peer) {
    RETURN_IF_ERROR(dial(peer, places[peer], deadline_ns));
  }
  RETURN_IF_ERROR(take_hellos(deadline_ns));
  const Status status = answer_hellos(deadline_ns);
  // The system of a process that has not called connect() takes connections, but answers nothing.
  if (status.code() == Code::kTimedOut) return {Code::kUnavailable, status.message()};
  RETURN_IF_ERROR(status);
  ::shutdown(listening_.get(), SHUT_RDWR);  // refuses all others from now on
  is_connected_ = true;
  if (is_stopped_) shut_down();
  return {};
}

// Connects to a process that may not have begun to wait for connections: its system takes them.
Status Mesh::dial(uint32_t peer, const MeshPlace& place, int64_t deadline_ns) {
  for (size_t at = 0; at < kChannels; ++at) {
    std::string tried;
    while (sockets_[peer][at].get() < 0) {
      tried.clear();
      for (const std::string& address : place.addresses) {
        const int64_t until_ns = std::min(deadline_ns, monotonic_ns() + kDialNs);
        auto made = connected_to(address, place.port, stopped_.get(), until_ns);
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
  // Receives what has arrived. Returns whether nothing more is expected.
  bool listen() {
    Mesh::Receiving in{.rest = rest};
    const auto is_complete = receive_some(socket.get(), &in);
    rest = in.rest;
    return !is_complete || *is_complete;
  }
  Descriptor socket;
  Hello hello;
  MutableBytes rest = bytes_of(&hello);  // empty when all has come
  int64_t since_ns = monotonic_ns();
};

// All of them, the oldest first.
using Strangers = std::vector<std::unique_ptr<Stranger>>;

// Makes room for one more, if that is possible now.
bool has_room(Strangers* strangers) {
  if (strangers->size() < base::kStrangersMax) return true;
  if (monotonic_ns() < strangers->front()->since_ns + kHurriedNs) return false;
  strangers->erase(strangers->begin());
  return true;
}

// Accepts a connection. Errors: kUnavailable if the system cannot make one.
Status accept_one(int listening, Strangers* strangers) {
  Descriptor made(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (made.get() >= 0) {
    strangers->push_back(std::make_unique<Stranger>(std::move(made)));
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    return fail(Code::kUnavailable, "cannot accept connections of other processes: {}",
                reason(errno));
  }
  return {};
}

}  // namespace

// Takes the connections of processes with higher ranks. Connections of others are closed.
Status Mesh::take_hellos(int64_t deadline_ns) {
  Strangers strangers;
  size_t missing = (options_.processes - options_.rank - 1) * kChannels;
  while (missing > 0) {
    const int listening = has_room(&strangers) ? listening_.get() : -1;
    std::vector<pollfd> waits = {{.fd = stopped_.get(), .events = POLLIN, .revents = 0},
                                 {.fd = listening, .events = POLLIN, .revents = 0}};
    for (const auto& one : strangers) {
      waits.push_back({.fd = one->socket.get(), .events = POLLIN, .revents = 0});
    }
    ::poll(waits.data(), waits.size(), poll_ms(std::min(deadline_ns, monotonic_ns() + kHurriedNs)));
    if (waits[0].revents != 0) return fail(Code::kCancelled, "stopped");
    for (auto& one : strangers) {
      bool is_over = one->listen();
      const Hello& hello = one->hello;
      if (one->rest.empty() && is_of_job(hello, options_) &&
          is_missing(hello.rank, hello.channel)) {
        prepare(one->socket.get());
        sockets_[hello.rank][hello.channel] = std::move(one->socket);
        --missing;
      }
      is_over = is_over || monotonic_ns() > one->since_ns + kHelloNs;
      if (is_over) one.reset();
    }
    std::erase(strangers, nullptr);
    if (waits[1].revents != 0) RETURN_IF_ERROR(accept_one(listening, &strangers));
    if (missing > 0 && monotonic_ns() >= deadline_ns) {
      return fail(Code::kUnavailable, "{} did not connect to rank {} in time",
                  listed(unconnected()), options_.rank);
    }
  }
  return {};
}

bool Mesh::is_missing(uint32_t peer, uint32_t channel) const {
  return peer > options_.rank && peer < options_.processes && channel < kChannels &&
         sockets_[peer][channel].get() < 0;
}

std::vector<uint32_t> Mesh::unconnected() const {
  std::vector<uint32_t> out;
  for (uint32_t peer = 0; peer < options_.processes; ++peer) {
    const auto& own = sockets_[peer];
    const bool is_partial =
        std::ranges::any_of(own, [](const auto& socket) { return socket.get() < 0; });
    if (peer != options_.rank && is_partial) out.push_back(peer);
  }
  return out;
}

// Answers the processes with higher ranks, and waits for the answers of those with lower ranks.
Status Mesh::answer_hellos(int64_t deadline_ns) {
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
        return fail(Code::kUnavailable,
                    "what listens at the place of rank {} is not this process of the job", peer);
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
  int64_t unanswered_ns = begin_ns + kUnansweredLookNs;
  // The peers get the first bytes also if theirs are refused.
  Status status = send_all(channel, &sending, &waits);
  while (true) {
    if (is_stopped_) return fail(Code::kCancelled, "stopped");
    waits.assign(1, {.fd = stopped_.get(), .events = POLLIN, .revents = 0});
    if (status.ok()) status = receive_all(channel, &receiving, &waits);
    if (status.ok()) status = send_all(channel, &sending, &waits);
    // stop() ends the connections, too.
    if (!status.ok() && is_stopped_) return fail(Code::kCancelled, "stopped");
    RETURN_IF_ERROR(status);
    if (sending.empty() && receiving.empty()) return {};
    ::poll(waits.data(), waits.size(), poll_ms(std::min(deadline_ns, look_ns)));
    const int64_t now_ns = monotonic_ns();
    if (now_ns >= look_ns) {
      look_ns = now_ns + kLookNs;
      RETURN_IF_ERROR(look(static_cast<double>(now_ns - begin_ns) / kNsPerSecond));
    }
    if (now_ns >= unanswered_ns) {
      unanswered_ns = now_ns + kUnansweredLookNs;
      for (const uint32_t peer : peers_of(sending, receiving)) {
        if (is_silent(socket(channel, peer))) return gone(peer, ETIMEDOUT);
      }
    }
    if (now_ns >= deadline_ns) {
      return fail(Code::kTimedOut, "{} did not answer in time",
                  listed(peers_of(sending, receiving)));
    }
  }
}

// Sends what the sockets take now, and adds the sockets that are full to `waits`.
Status Mesh::send_all(Channel channel, std::vector<Sending>* all, std::vector<pollfd>* waits) {
  for (auto one = all->begin(); one != all->end();) {
    const int own = socket(channel, one->peer);
    ASSIGN_OR_RETURN(const Sent sent, send_some(own, &*one));
    if (sent == Sent::kWhatTheSocketTakes) {
      waits->push_back({.fd = own, .events = POLLOUT, .revents = 0});
    }
    one = sent == Sent::kAll ? all->erase(one) : one + 1;
  }
  return {};
}

Status Mesh::receive_all(Channel channel, std::vector<Receiving>* all, std::vector<pollfd>* waits) {
  for (auto one = all->begin(); one != all->end();) {
    const int own = socket(channel, one->peer);
    ASSIGN_OR_RETURN(const bool is_done, receive_some(own, &*one));
    if (!is_done) waits->push_back({.fd = own, .events = POLLIN, .revents = 0});
    one = is_done ? all->erase(one) : one + 1;
  }
  return {};
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

std::vector<uint32_t> Mesh::lost() const {
  std::vector<uint32_t> out;
  for (uint32_t peer = 0; peer < options_.processes; ++peer) {
    if (peer == options_.rank) continue;
    std::array<pollfd, kChannels> ends{};
    for (size_t at = 0; at < kChannels; ++at) {
      ends[at] = {.fd = sockets_[peer][at].get(), .events = POLLRDHUP, .revents = 0};
    }
    if (::poll(ends.data(), ends.size(), 0) > 0) out.push_back(peer);
  }
  return out;
}

void Mesh::stop() {
  is_stopped_ = true;
  const uint64_t one = 1;
  static_cast<void>(::write(stopped_.get(), &one, sizeof one) == 0);
  if (is_connected_) shut_down();
}

void Mesh::shut_down() {
  for (const auto& peer : sockets_) {
    for (const Descriptor& socket : peer) {
      if (socket.get() >= 0) ::shutdown(socket.get(), SHUT_RDWR);
    }
  }
}

}  // namespace forebay::io
