// How a host uses prep servers, and what they did. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/secret.h"
#include "prep/policy/policy.h"

namespace forebay::prep {

struct PrepOptions {
  std::vector<std::string> servers = {};  // http://HOST:PORT or https://HOST:PORT
  io::Secret secret = {};                 // the servers'
  PolicyKind policy = PolicyKind::kInterleave;
  // Whether the steps of an epoch may come in another order; kMte and kWrr need it.
  bool any_order = false;
};
// Reads "interleave", "mte" or "wrr". Errors: kInvalid.
base::Result<PolicyKind> parse_policy(std::string_view name);

struct ServerStats {
  std::string name;
  bool is_up = false;
  std::string trouble = {};  // why it is not, or what happened last; empty: nothing
  uint64_t steps = 0;        // that the consumer got from it
  uint64_t late = 0;         // that the host prepared in its place
  uint64_t checked = 0;      // that the host prepared too, and compared
  uint64_t bytes = 0;
  uint64_t files = 0;  // batches that came as files of its folder
  double step_s = 0;   // how long it takes for a step; 0: not known
};
struct PrepStats {
  uint64_t host_steps = 0;  // that the consumer got from the host itself
  double host_step_s = 0;
  uint64_t remade_steps = 0;  // prepared out of turn
  // The steps of their epochs that the host began last, and that a prep server was asked for last.
  uint64_t host_at = 0;
  uint64_t servers_at = 0;
  std::vector<ServerStats> servers = {};
};

}  // namespace forebay::prep
