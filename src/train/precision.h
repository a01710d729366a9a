// Which number type a model computes in. Weights, momentum and statistics are float32 always.
#pragma once

#include <string>

#include "base/status.h"

namespace forebay::train {

enum class Precision : uint8_t { kFp32, kBf16 };

struct Choice {
  Precision precision = Precision::kFp32;
  std::string why;  // for people
};

// "auto", "bf16" or "fp32"; kInvalid for anything else.
base::Result<Choice> choose_precision(const std::string& option);

// Whether the processor multiplies bfloat16 itself (AVX512-BF16; every one with AMX has it too).
bool has_bf16();

}  // namespace forebay::train
