// How long a service is waited for, and how often it is asked, where a user says so. docs/remote.md
// describes the options.
#pragma once

#include <optional>
#include <string>

#include "io/http/service.h"

namespace forebay::io::http {

// What the user left out is decided by ServiceOptions.
struct Patience {
  std::optional<int64_t> connect_ns = {};
  std::optional<int64_t> stall_ns = {};
  std::optional<int> attempts_max = {};

  void apply_to(ServiceOptions& options) const;
};

// A user's text, and the name of its place for messages. An empty value means that nothing was
// given.
struct GivenText {
  std::string value = {};
  std::string where = {};
};
// Both times are numbers of seconds from 1 to kTimeoutSecondsMax, with or without a fraction.
// `attempts` says how often a request is sent in all, from 1 to kAttemptsMax. Errors: kInvalid.
Result<Patience> parse_patience(const GivenText& connect, const GivenText& read,
                                const GivenText& attempts);

}  // namespace forebay::io::http
