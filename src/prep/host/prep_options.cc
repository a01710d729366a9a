#include "prep/host/prep_options.h"

namespace forebay::prep {

base::Result<PolicyKind> parse_policy(std::string_view name) {
  if (name == "interleave") return PolicyKind::kInterleave;
  if (name == "mte") return PolicyKind::kMte;
  if (name == "wrr") return PolicyKind::kWrr;
  return base::fail(base::Code::kInvalid,
                    "prep: the policy is \"{}\", but must be \"interleave\", \"mte\" or \"wrr\"",
                    name);
}

}  // namespace forebay::prep
