// Looks up machines by their names.
#pragma once

#include <string>

#include "base/status.h"

namespace forebay::io {

struct FoundAddress {
  std::string text;  // an IP address as a number
  bool is_loopback = false;
};

// The first IP address of a host's name, or of what is one already. Waits for the system's
// resolver. Errors: kUnavailable where the name is not known.
base::Result<FoundAddress> find_address(const std::string& host);

}  // namespace forebay::io
