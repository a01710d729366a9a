// Datagrams (UDP) between the machines of a job. Each has a tag (HMAC-SHA256) with a key from the
// job's secret: what others send is dropped. They may be lost, come twice, late, and in any order.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "io/secret.h"

namespace forebay::io {

using base::Bytes;
using base::Result;

// The address in its usual form; empty where the text is not an address in numbers.
std::string address_number(const std::string& text);

class Datagrams {
 public:
  // Receives at this address, a number, and at this port, or at any that is free where it is 0.
  // Errors: kInvalid for an empty secret, which everybody knows; kUnavailable, kIo.
  static Result<std::unique_ptr<Datagrams>> open(const std::string& address, uint16_t port,
                                                 const Secret& secret);
  ~Datagrams();
  Datagrams(const Datagrams&) = delete;
  Datagrams& operator=(const Datagrams&) = delete;

  uint16_t port() const;
  // What cannot be sent is lost. One thread at a time sends and receives.
  void send(const std::string& address, uint16_t port, Bytes bytes);
  // Waits for a datagram of the job. Nothing at the deadline, which is on the clock of
  // monotonic_ns(), or when wake() was called.
  std::optional<base::ByteVector> receive(int64_t deadline_ns);
  // Ends a wait, or the next one. Any thread may call it.
  void wake();

 private:
  class Socket;
  explicit Datagrams(std::unique_ptr<Socket> socket);
  const std::unique_ptr<Socket> socket_;
};

}  // namespace forebay::io
