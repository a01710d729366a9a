#include "prep/prep_options.h"

namespace forebay::prep {

using plan::ProngPolicy;

base::Result<ProngPolicy> parse_policy(std::string_view name) {
  if (name == "interleave") return ProngPolicy::kInterleave;
  if (name == "mte") return ProngPolicy::kMte;
  if (name == "wrr") return ProngPolicy::kWrr;
  return base::fail(base::Code::kInvalid,
                    "prep: the policy is \"{}\", but must be \"interleave\", \"mte\" or \"wrr\"",
                    name);
}

}  // namespace forebay::prep
