#include "prep/policy/policy.h"

#include "prep/policy/interleave.h"
#include "prep/policy/tail_policies.h"

namespace forebay::prep {

std::unique_ptr<Policy> Policy::make(const PolicyOptions& options) {
  switch (options.policy) {
    case PolicyKind::kInterleave:
      return std::make_unique<Interleave>(options);
    case PolicyKind::kMte:
      return std::make_unique<TailPolicy>(options);
    case PolicyKind::kWrr:
      return std::make_unique<TailPolicy>(options);
  }
  return nullptr;
}

}  // namespace forebay::prep
