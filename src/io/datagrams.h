// Datagrams (UDP) between the machines of a job. Each carries a tag, an HMAC-SHA256 whose key is
// the job's secret; datagrams without a valid tag are dropped. Datagrams may be lost, duplicated,
// delayed and reordered.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "io/secret.h"

namespace forebay::io {

using base::Bytes;
using base::Result;

// An IP address in its usual form; empty if the text is not an IP address.
std::string address_number(const std::string& text);

class Datagrams {
 public:
  // Receives at this IP address and port; port 0 takes any free port. Errors: kInvalid for an empty
  // secret; kUnavailable, kIo.
  static Result<std::unique_ptr<Datagrams>> open(const std::string& address, uint16_t port,
                                                 const Secret& secret);
  ~Datagrams();
  Datagrams(const Datagrams&) = delete;
  Datagrams& operator=(const Datagrams&) = delete;

  uint16_t port() const;
  // A datagram that cannot be sent is lost. One thread at a time may call send() and receive().
  void send(const std::string& address, uint16_t port, Bytes bytes);
  // Waits for a datagram of the job. Returns nothing at the deadline, which is on the clock of
  // monotonic_ns(), or after wake().
  std::optional<base::ByteVector> receive(int64_t deadline_ns);
  // Ends the current or the next receive(). Any thread may call it.
  void wake();

 private:
  class Socket;
  explicit Datagrams(std::unique_ptr<Socket> socket);
  const std::unique_ptr<Socket> socket_;
};

}  // namespace forebay::io
