// The number type in which a model computes. Weights, momentum and statistics are always float32.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "base/status.h"

namespace forebay::train {

enum class Precision : uint8_t { kFp32, kBf16 };

struct ResolvedPrecision {
  Precision precision = Precision::kFp32;
  std::string why;  // explains the choice to people
};

// Chooses by `option`: "auto", "bf16" or "fp32". Errors: kInvalid for anything else.
base::Result<ResolvedPrecision> resolve_precision(const std::string& option,
                                                  const c10::Device& device);

// Whether the processor has instructions for bfloat16 (AVX512-BF16, which every processor with AMX
// has too).
bool has_bf16();

}  // namespace forebay::train
