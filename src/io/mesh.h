// Connections between all processes of a job, each with each, that carry bytes in order. Processes
// are numbered by rank. A token keeps strangers out; nothing is encrypted.
//
// Unlike the process groups of PyTorch, a wait ends at once when another thread calls stop(), and a
// process that is lost ends only the transfers with this process.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "io/descriptor.h"

struct pollfd;

namespace forebay::io {

using base::Bytes;
using base::MutableBytes;
using base::Result;
using base::Status;

// Where a process listens.
struct MeshPlace {
  std::vector<std::string> addresses;  // IP addresses, the best first
  uint16_t port = 0;
};

class Mesh {
 public:
  // Connections for different uses. Each is used by one thread at a time, except that one thread
  // may send to a peer while another receives from it.
  enum class Channel : uint8_t { kMessages, kSums, kControl };
  static constexpr size_t kChannels = 3;
  static constexpr size_t kTokenBytes = 32;

  struct Options {
    uint32_t rank = 0;
    uint32_t processes = 1;
    std::string token;  // kTokenBytes, the same in all processes of the job
  };

  // Listens on a free port of all addresses of this machine. Errors: kUnavailable.
  static Result<std::unique_ptr<Mesh>> listen(Options options);
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  // Where the other processes reach this one. The first address is the one from which this machine
  // reaches the host `toward`, and the others are those of its network interfaces; a loopback
  // address is the last one if only this machine calls it `toward`. If `interface` is not empty,
  // only addresses of the interface with this name count. Errors: kInvalid if there is no such
  // interface, or it has no address; kUnavailable.
  Result<MeshPlace> place(const std::string& toward, const std::string& interface) const;

  // Connects to all other processes, whose places are given by rank. Errors: kUnavailable, which
  // names the processes that could not be reached or did not connect before the deadline, on the
  // clock of monotonic_ns(); kCancelled.
  Status connect(const std::vector<MeshPlace>& places, int64_t deadline_ns);

  // Bytes for a peer, or memory for bytes from a peer. When these are complete, `more` is asked for
  // further ones, if it is given; no bytes end the transfer with this peer. Bytes that depend on
  // what the same transfer still receives may be absent; then `more` is asked again when more bytes
  // have arrived.
  struct Sending {
    uint32_t peer = 0;
    Bytes rest;
    Bytes then = {};  // sent after `rest`
    std::function<std::optional<Bytes>()> more = {};
  };
  struct Receiving {
    uint32_t peer = 0;
    MutableBytes rest;
    std::function<Result<MutableBytes>()> more = {};
  };

  // Called about once a second during a wait, with the time since its beginning. An error ends the
  // wait.
  using Look = std::function<Status(double waited_s)>;

  // Sends and receives all of this at the same time. Errors: kUnavailable if a peer is gone;
  // kTimedOut at the deadline; kCancelled after stop(); those of `more` and `look`. After an error,
  // part of the bytes was transferred, and no other call for this channel and these peers makes
  // sense.
  Status transfer(Channel channel, std::vector<Sending> sending, std::vector<Receiving> receiving,
                  int64_t deadline_ns = INT64_MAX, const Look& look = {});

  // Waits until one of the peers has sent bytes, or is gone; returns its rank. Errors: kTimedOut,
  // kCancelled.
  Result<uint32_t> wait_for_any(Channel channel, const std::vector<uint32_t>& peers,
                                int64_t deadline_ns);

  // The processes whose connections have ended, as far as this machine has noticed. After
  // connect(). Any thread may call it.
  std::vector<uint32_t> lost() const;

  // Ends all waits, now and later, and all connections: the peers see that this process is gone.
  // Any thread may call it.
  void stop();

  uint32_t rank() const { return options_.rank; }
  uint32_t processes() const { return options_.processes; }

 private:
  Mesh(Options options, Descriptor listening, Descriptor stopped, uint16_t port);

  int socket(Channel channel, uint32_t peer) const {
    return sockets_[peer][static_cast<size_t>(channel)].get();
  }
  Status dial(uint32_t peer, const MeshPlace& place, int64_t deadline_ns);
  Status take_hellos(int64_t deadline_ns);
  Status answer_hellos(int64_t deadline_ns);
  // Whether the connection of a process with a higher rank has not come yet.
  bool is_missing(uint32_t peer, uint32_t channel) const;
  std::vector<uint32_t> unconnected() const;
  Status send_all(Channel channel, std::vector<Sending>* all, std::vector<pollfd>* waits);
  Status receive_all(Channel channel, std::vector<Receiving>* all, std::vector<pollfd>* waits);
  void shut_down();

  const Options options_;
  const Descriptor listening_;
  const Descriptor stopped_;  // an eventfd, readable after stop()
  const uint16_t port_;
  std::atomic<bool> is_stopped_ = false;
  std::atomic<bool> is_connected_ = false;  // connect() has returned; sockets_ does not change
  std::vector<std::array<Descriptor, kChannels>> sockets_;  // by peer
};

}  // namespace forebay::io
