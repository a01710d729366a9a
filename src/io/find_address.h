// Resolves host names, and tells from which address this machine reaches another one.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::io {

struct FoundAddress {
  std::string text;  // an IP address
  bool is_loopback = false;
  bool operator==(const FoundAddress&) const = default;
};

// An IP address, which must be well-formed.
FoundAddress address_of(const std::string& text);
// The IP addresses of a host name, the preferred one first and at least one; `host` may also be an
// IP address. Waits for the system's resolver. Errors: kUnavailable if the name cannot be resolved.
base::Result<std::vector<FoundAddress>> find_addresses(const std::string& host);
// The first of them.
base::Result<FoundAddress> find_address(const std::string& host);

// The address from which this machine sends to an IP address; nothing is sent. Empty if no route
// leads there.
std::string source_address_to(const std::string& address);

}  // namespace forebay::io
