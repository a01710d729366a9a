// The sockets of a mesh, and the addresses of this machine. Only mesh.cc includes this.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "io/descriptor.h"

namespace forebay::io {

using base::Result;

// The system's words for an errno.
std::string reason(int error);

// The time from now to the deadline for ::poll(), at most a minute, which rounds nothing away.
int poll_ms(int64_t deadline_ns);

// A socket that listens on a free port of all addresses. Errors: kUnavailable.
Result<Descriptor> listening_socket();
uint16_t port_of(int socket);

// Connects to a port of a host's name or address; ends when `stopped` is readable. Errors: the
// system's errno; ECANCELED if it was stopped.
tl::expected<Descriptor, int> connected_to(const std::string& host, uint16_t port, int stopped,
                                           int64_t deadline_ns);
// Prepares a connection that was made or accepted for a mesh.
void prepare(int socket);
// Whether the peer's system has answered nothing for very long. Probes are sent when nothing else
// is.
bool is_silent(int socket);

// The address from which this machine would send to a host; empty if it cannot.
std::string address_toward(const std::string& host);

// An address of this machine.
struct Interface {
  std::string name;
  std::string address;
  bool is_loopback = false;
};
std::vector<Interface> interfaces();
// The addresses at which other processes of a job may reach this machine, the best first. `host` is
// where the job's first process is, and `toward` what address_toward() returns for it.
std::vector<std::string> best_first(const std::string& host, const std::string& toward,
                                    const std::vector<Interface>& all);

}  // namespace forebay::io
