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
  // Whether the steps of an epoch may come in any order; kMte and kWrr need it.
  bool any_order = false;
};
// Reads "interleave", "mte" or "wrr". Errors: kInvalid.
base::Result<PolicyKind> parse_policy(std::string_view name);

struct ServerStats {
  std::string name;
  bool is_up = false;
  std::string trouble = {};  // why it is not up, or the last thing that went wrong; may be empty
  uint64_t steps = 0;        // steps that the consumer got from it
  uint64_t late = 0;         // late steps that the host prepared instead
  uint64_t checked = 0;      // steps that the host prepared too, and compared
  uint64_t bytes = 0;        // of the batches received from it
  uint64_t files = 0;        // batches that came as files of its folder
  double step_s = 0;         // how long it takes for a step; 0: not known
};
struct PrepStats {
  uint64_t host_steps = 0;  // steps that the consumer got from the host itself
  double host_step_s = 0;
  uint64_t remade_steps = 0;  // steps that the host prepared out of turn
  // The step that the host began last, and the step that a prep server was asked for last, each
  // counted within its epoch.
  uint64_t host_at = 0;
  uint64_t servers_at = 0;
  std::vector<ServerStats> servers = {};
};

}  // namespace forebay::prep
