// For tests and benchmarks: which instruction sets Forebay's code may use, to compare them in one
// process.
#pragma once

#include <hwy/targets.h>

#include "jpeg/entropy.h"

namespace forebay::jpeg {

// From now on entropy decoding is done by `kernel` and, for few streams, by those before it; all
// else by what a machine has that runs no better one: AVX2 on x86, for the portable one too, as
// Forebay needs it there. What was made before keeps the entropy kernels that it chose then.
inline void keep_to(EntropyKernel kernel) {
  hwy::SetSupportedTargetsForTest(0);
  const auto all = hwy::SupportedTargets();
  const auto to_avx2 = all & ~(2 * HWY_AVX3 - 1);
  if (kernel == EntropyKernel::kAvx2) hwy::SetSupportedTargetsForTest(to_avx2);
  if (kernel == EntropyKernel::kPortable) {
    hwy::SetSupportedTargetsForTest(to_avx2 & ~HWY_AVX2);
  }
  hwy::GetChosenTarget().Update(kernel == EntropyKernel::kAvx512 ? all : to_avx2);
}

}  // namespace forebay::jpeg
