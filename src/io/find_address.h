// Resolves host names.
#pragma once

#include <string>

#include "base/status.h"

namespace forebay::io {

struct FoundAddress {
  std::string text;  // an IP address
  bool is_loopback = false;
};

// The first IP address of a host name; `host` may also be an IP address. Waits for the system's
// resolver. Errors: kUnavailable if the name cannot be resolved.
base::Result<FoundAddress> find_address(const std::string& host);

}  // namespace forebay::io
