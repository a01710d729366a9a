#include "plan/prongs.h"

#include "plan/interleave.h"
#include "plan/two_ended.h"

namespace forebay::plan {

std::unique_ptr<Prongs> Prongs::make(const ProngOptions& options) {
  switch (options.policy) {
    case ProngPolicy::kInterleave:
      return std::make_unique<Interleave>(options);
    case ProngPolicy::kMte:
      return std::make_unique<TwoEnded>(options);
    case ProngPolicy::kWrr:
      return std::make_unique<TwoEnded>(options);
  }
  return nullptr;
}

}  // namespace forebay::plan
