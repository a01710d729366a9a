// Timeouts and numbers of attempts that a user sets. docs/remote.md describes the options.
#pragma once

#include <optional>
#include <string>

#include "io/http/service.h"

namespace forebay::io::http {

// What the user did not set stays as it is in ServiceOptions.
struct Patience {
  std::optional<int64_t> connect_ns = {};
  std::optional<int64_t> stall_ns = {};
  std::optional<int> attempts_max = {};

  void apply_to(ServiceOptions& options) const;
};

// A value that the user gave, and the name of its option or variable for messages. An empty value
// means that none was given.
struct GivenText {
  std::string value = {};
  std::string where = {};
};
// `connect` and `read` are numbers of seconds from 1 to kTimeoutSecondsMax, with or without a
// fraction. `attempts` is how often a request is sent in all, from 1 to kAttemptsMax. Errors:
// kInvalid.
Result<Patience> parse_patience(const GivenText& connect, const GivenText& read,
                                const GivenText& attempts);

}  // namespace forebay::io::http
