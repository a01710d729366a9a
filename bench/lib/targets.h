// Which instruction sets Forebay's code may use, for comparisons of them in one process.
#pragma once

#include <hwy/targets.h>

#include "jpeg/entropy.h"

namespace forebay::bench {

// From now on entropy decoding is done by `kernel`, all else by what a machine has that runs no
// better one: AVX2 on x86, for the portable one too, as Forebay needs it there. What was made
// before keeps the kernel that it chose then.
inline void keep_to(jpeg::EntropyKernel kernel) {
  hwy::SetSupportedTargetsForTest(0);
  const auto all = hwy::SupportedTargets();
  const auto to_avx2 = all & ~(2 * HWY_AVX3 - 1);
  if (kernel == jpeg::EntropyKernel::kAvx2) hwy::SetSupportedTargetsForTest(to_avx2);
  if (kernel == jpeg::EntropyKernel::kPortable) {
    hwy::SetSupportedTargetsForTest(to_avx2 & ~HWY_AVX2);
  }
  hwy::GetChosenTarget().Update(kernel == jpeg::EntropyKernel::kAvx512 ? all : to_avx2);
}

}  // namespace forebay::bench
