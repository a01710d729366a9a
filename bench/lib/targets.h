// Which instruction sets Forebay's code may use, for comparisons of them in one process.
#pragma once

#include <hwy/targets.h>

namespace forebay::bench {

// From now on Forebay's code keeps to AVX2, or takes the machine's best. What was made before keeps
// the entropy decoder that it chose then.
inline void keep_to_avx2(bool keep) {
  hwy::SetSupportedTargetsForTest(0);
  if (keep) hwy::SetSupportedTargetsForTest(hwy::SupportedTargets() & ~(2 * HWY_AVX3 - 1));
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace forebay::bench
