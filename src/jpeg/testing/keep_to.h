// For tests and benchmarks: restricts the instruction sets that Forebay may use, to compare them in
// one process.
#pragma once

#include <hwy/targets.h>

#include "jpeg/kernels/entropy.h"

namespace forebay::jpeg {

// From now on `kernel`, and for few streams the kernels before it, do entropy decoding. Everything
// else uses the instruction set of a machine that runs no better kernel: AVX2 on x86, also for the
// portable kernel, because Forebay requires AVX2 there. Objects that exist already keep the kernels
// that they chose.
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
